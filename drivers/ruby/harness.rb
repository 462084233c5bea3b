# frozen_string_literal: true

# What the Ruby drivers share: see docs/driver-protocol.md.

require "json"

SLOT_BITS = 11
PAUSE = 0.005

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

def say(line)
  $stdout.puts(JSON.generate(line))
  $stdout.flush
end

# The first word of an error reply, or the name of the client's error.
def kind_of(error)
  word = error.message.to_s.split(" ", 2).first.to_s
  word.match?(/\A[A-Z]+\z/) ? word : error.class.name.split("::").last
end

# One block of operations: its end, its times and its costs.
class Block
  def initialize(config, duration, most, seed)
    @value_bytes = config["value_bytes"]
    @keys = config["keys"]
    @most = most
    @state = [seed & 0xFFFFFFFF, 1].max
    @slots = Hash.new(0)
    # Times since calls began, and how late they began (open loop).
    @service = Hash.new(0)
    @lag = Hash.new(0)
    @rate = config["rate"].to_i
    @errors = Hash.new(0)
    @misses = @ops = @begun = 0
    @gc = GC.total_time
    @cpu = Process.times
    @start = now
    @end = duration.zero? ? nil : @start + duration
  end

  # Whether another call of `size` operations begins, which an open loop waits for.
  def goes_on?(size)
    return false if @most.positive? && @begun >= @most

    is_timed = @end && @begun.positive?
    return false if is_timed && now >= @end

    if @rate.positive?
      @due = @start + @begun * 1_000_000_000 / @rate
      return false if is_timed && @due >= @end

      @late = wait
    end
    @begun += size
    true
  end

  # Waits for the time of the next call; returns how late that ended: 0 if it did not have to wait.
  def wait
    left = @due - now
    return 0 unless left.positive?

    sleep(left / 1e9)
    [now - @due, 0].max
  end

  # The number of the next key: xorshift32, the same in all drivers.
  def choose
    state = @state
    state ^= state << 13 & 0xFFFFFFFF
    state ^= state >> 17
    state ^= state << 5 & 0xFFFFFFFF
    @state = state
    state % @keys
  end

  # Counts a call of `size` operations that began at `begun` and has ended now. In an open loop its time is that since it
  # was due.
  def done(begun, size)
    ended = now
    record(@slots, ended - (@due || begun), size)
    if @due
      record(@service, ended - begun, size)
      record(@lag, @late, size)
    end
    @ops += size
  end

  def record(slots, ns, size)
    shift = [ns.bit_length - SLOT_BITS, 0].max
    slots[shift * 1024 + (ns >> shift)] += size
  end

  # Looks at what a read returned.
  def check(value)
    if value.nil?
      @misses += 1
    elsif value.bytesize != @value_bytes
      @errors["WRONGVALUE"] += 1
    end
  end

  def fail(error, size)
    @errors[kind_of(error)] += size
  end

  def result
    elapsed = now - @start
    cpu = Process.times
    open_loop = { service_histogram: @service.sort, lag_histogram: @lag.sort }
    {
      ops: @ops,
      errors: @errors,
      misses: @misses,
      elapsed_ns: elapsed,
      user_cpu_ns: ((cpu.utime - @cpu.utime) * 1e9).round,
      system_cpu_ns: ((cpu.stime - @cpu.stime) * 1e9).round,
      max_rss_bytes: File.read("/proc/self/status")[/^VmHWM:\s+(\d+)/, 1].to_i * 1024,
      gc_ns: GC.total_time - @gc,
      histogram: @slots.sort,
      **(@rate.positive? ? open_loop : {})
    }
  end
end

# A driver of one client library. A class for a library says how it connects, reads, writes and pipelines.
class Driver
  attr_reader :config

  def initialize(config)
    @config = config
    @has_yjit = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
    abort "YJIT is not as #{config["client"]} says" if @has_yjit ^ config["client"].end_with?(".yjit")

    @socket = config["client"].include?(".hiredis") ? :hiredis : :ruby
    @redis = connect
    @keys = Array.new(config["keys"]) { |number| format("%s%08d", config["key_prefix"], number) }
    @value = "x" * config["value_bytes"]
    @held = []
  end

  def about
    {
      client: self.class::NAME,
      version: self.class::VERSION,
      runtime: "#{RUBY_ENGINE} #{RUBY_VERSION}",
      options: [("hiredis" if @socket == :hiredis), ("yjit" if @has_yjit)].compact
    }
  end

  def open(count)
    count.times { @held << connect }
  end

  def run(block)
    is_get = @config["operation"] == "get"
    case @config["mode"]
    when "sync" then one_by_one(block, is_get)
    when "pipeline" then in_pipelines(block, is_get, @config["depth"])
    when "faults" then with_faults(block)
    else abort "#{self.class::NAME} has no mode `#{@config["mode"]}`"
    end
  end

  def one_by_one(block, is_get)
    while block.goes_on?(1)
      key = @keys[block.choose]
      begun = now
      begin
        is_get ? block.check(get(key)) : set(key, @value)
      rescue self.class::ERROR => error
        block.fail(error, 1)
      end
      block.done(begun, 1)
    end
  end

  # A pipeline raises its first error, and returns no reply then.
  def in_pipelines(block, is_get, depth)
    while block.goes_on?(depth)
      chosen = Array.new(depth) { @keys[block.choose] }
      begun = now
      begin
        replies = is_get ? get_all(chosen) : set_all(chosen, @value)
        replies.each { |reply| block.check(reply) } if is_get
      rescue self.class::ERROR => error
        block.fail(error, depth)
      end
      block.done(begun, depth)
    end
  end

  # INCR of a key of its own, one after the other, with a line for each.
  def with_faults(block)
    sequence = 0
    while block.goes_on?(1)
      line = { kind: "incr", key: "#{@config["key_prefix"]}#{sequence}", sequence: sequence }
      begun = now
      begin
        incr(line[:key])
        line[:outcome] = "acknowledged"
      # The last two are no StandardError, and reach the caller of the client all the same.
      rescue StandardError, SystemStackError, NoMemoryError => error
        line[:outcome] = error.is_a?(self.class::REFUSAL) ? "failed" : "unknown"
        line[:error] = kind_of(error)
      end
      line[:ns] = now - begun
      say(op: line)
      sequence += 1
      sleep PAUSE
    end
  end
end

# Drives with a class until standard input ends.
def drive(kind)
  config = JSON.parse($stdin.gets)
  driver = kind.new(config)
  say(ready: driver.about)
  while (line = $stdin.gets)
    command, *words = line.split
    numbers = words.map { |word| Integer(word, 10) }
    case command
    when "open"
      driver.open(*numbers)
      say(opened: numbers.first)
    when "go"
      block = Block.new(config, *numbers)
      driver.run(block)
      say(result: block.result)
    else
      abort "unknown line `#{line.chomp}`"
    end
  end
end

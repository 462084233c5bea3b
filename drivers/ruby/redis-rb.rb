# frozen_string_literal: true

# redis-rb, on the socket of Ruby or on that of hiredis. Version 4 speaks RESP2 only.

require "redis"
require_relative "harness"

# The driver of redis-rb.
class RedisRb < Driver
  NAME = "redis-rb"
  VERSION = Redis::VERSION
  ERROR = Redis::BaseError
  REFUSAL = Redis::CommandError

  def connect
    options = {
      **place,
      db: @config["database"],
      username: @config["user"],
      password: @config["password"],
      driver: @socket
    }
    if VERSION.to_i >= 5
      options[:protocol] = @config["resp"]
      require "hiredis-client" if @socket == :hiredis
    end
    redis = Redis.new(**options)
    redis.ping
    redis
  end

  # The server, a node of a cluster, or the sentinels that know it by its name.
  def place
    sentinel = @config["sentinel"]
    here = { host: @config["host"], port: @config["port"] }
    return { cluster: [here] } if @config["cluster"]
    return here unless sentinel

    known = sentinel["addresses"].map { |one| { host: one["host"], port: one["port"] } }
    { host: sentinel["master"], sentinels: known, role: :master }
  end

  def get(key) = @redis.get(key)

  def set(key, value) = @redis.set(key, value)

  def incr(key) = @redis.incr(key)

  def get_all(keys)
    @redis.pipelined { |pipeline| keys.each { |key| pipeline.get(key) } }
  end

  def set_all(keys, value)
    @redis.pipelined { |pipeline| keys.each { |key| pipeline.set(key, value) } }
  end
end

drive(RedisRb)

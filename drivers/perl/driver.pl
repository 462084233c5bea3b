# A driver of Perl's Redis client: see docs/driver-protocol.md. Clients: perl-redis, perl-redis.recommended.

use strict;
use warnings;

use BSD::Resource qw(getrusage);
use JSON::PP ();
use Redis;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

use constant {
    SLOT_BITS => 11,
    PAUSE     => 0.005,
    MASK      => 0xFFFFFFFF,
};

my $JSON = JSON::PP->new->canonical;

sub say_line { print $JSON->encode($_[0]), "\n" }

sub now { return sprintf('%d', clock_gettime(CLOCK_MONOTONIC) * 1e9) + 0 }

# The code of an error reply, which the client puts after the name of the command; undef for any other error.
sub code_of { return $_[0] =~ /^(?:\[\w+\] )?([A-Z]+) / ? $1 : undef }

# The client has texts in place of classes of errors.
sub kind_of {
    my ($error) = @_;
    return code_of($error)
        // ($error =~ /could not connect|sentinel/i ? 'NotConnected'
          : $error =~ /connected|reading|closed|write/i ? 'ConnectionLost'
          :                                             'Died');
}

# User and system time of this process in nanoseconds.
sub cpu_times { return map { int($_ * 1e9) } (getrusage())[0, 1] }

sub max_rss {
    open my $status, '<', '/proc/self/status' or die "no /proc/self/status: $!";
    local $/;
    return <$status> =~ /^VmHWM:\s+(\d+)/m ? $1 * 1024 : 0;
}

sub record {
    my ($slots, $ns, $size) = @_;
    my $shift = 0;
    $shift++ while $ns >> $shift >= 1 << SLOT_BITS;
    $slots->{$shift * 1024 + ($ns >> $shift)} += $size;
}

# The slots with their counts.
sub pairs {
    my ($slots) = @_;
    return [map { [$_ + 0, $slots->{$_}] } sort { $a <=> $b } keys %$slots];
}

# One block of operations: its end, its times and its costs.
package Block {
    sub new {
        my ($class, $config, $duration, $most, $seed) = @_;
        my $start = main::now();
        my %block = (
            config => $config,
            rate   => $config->{rate} // 0,
            most   => $most,
            state  => ($seed & main::MASK) || 1,
            start  => $start,
            end    => $duration > 0 ? $start + $duration : undef,
            cpu    => [main::cpu_times()],
            errors => {},
            (map { $_ => {} } qw(slots service lag)),
            (map { $_ => 0 } qw(misses ops begun late)),
        );
        return bless \%block, $class;
    }

    # Whether another call of `$size` operations begins, which an open loop waits for.
    sub goes_on {
        my ($self, $size) = @_;
        return 0 if $self->{most} > 0 && $self->{begun} >= $self->{most};
        my $is_timed = defined $self->{end} && $self->{begun} > 0;
        return 0 if $is_timed && main::now() >= $self->{end};
        if ($self->{rate} > 0) {
            $self->{due} = $self->{start} + int($self->{begun} * 1e9 / $self->{rate});
            return 0 if $is_timed && $self->{due} >= $self->{end};
            $self->{late} = $self->wait_until_due;
        }
        $self->{begun} += $size;
        return 1;
    }

    # Waits for the time of the next call; returns how late that ended: 0 if it did not have to wait.
    sub wait_until_due {
        my ($self) = @_;
        my $left = $self->{due} - main::now();
        return 0 if $left <= 0;
        main::sleep($left / 1e9);
        my $late = main::now() - $self->{due};
        return $late > 0 ? $late : 0;
    }

    # The number of the next key: xorshift32, the same in all drivers.
    sub choose {
        my ($self) = @_;
        my $state = $self->{state};
        $state ^= $state << 13 & main::MASK;
        $state ^= $state >> 17;
        $state ^= $state << 5 & main::MASK;
        $self->{state} = $state;
        return $state % $self->{config}{keys};
    }

    # Counts a call of `$size` operations that began at `$begun` and has ended now. In an open loop its time is that since it was
    # due.
    sub done {
        my ($self, $begun, $size) = @_;
        my $now = main::now();
        main::record($self->{slots}, $now - ($self->{due} // $begun), $size);
        if (defined $self->{due}) {
            main::record($self->{service}, $now - $begun, $size);
            main::record($self->{lag}, $self->{late}, $size);
        }
        $self->{ops} += $size;
    }

    # Looks at the reply to a read.
    sub check {
        my ($self, $value) = @_;
        if (!defined $value) {
            $self->{misses}++;
        } elsif (length $value != $self->{config}{value_bytes}) {
            $self->fail('WRONGVALUE', 1);
        }
    }

    sub fail {
        my ($self, $kind, $size) = @_;
        $self->{errors}{$kind} += $size;
    }

    sub result {
        my ($self) = @_;
        my $elapsed = main::now() - $self->{start};
        my @cpu = main::cpu_times();
        my %open = (
            service_histogram => main::pairs($self->{service}),
            lag_histogram     => main::pairs($self->{lag}),
        );
        return {
            ops           => $self->{ops},
            errors        => $self->{errors},
            misses        => $self->{misses},
            elapsed_ns    => $elapsed,
            user_cpu_ns   => $cpu[0] - $self->{cpu}[0],
            system_cpu_ns => $cpu[1] - $self->{cpu}[1],
            max_rss_bytes => main::max_rss(),
            histogram     => main::pairs($self->{slots}),
            ($self->{rate} > 0 ? %open : ()),
        };
    }
}

package main;

# Whether the client connects again by itself, which it does not by default.
sub reconnects { return $_[0]{client} =~ /\.recommended$/ }

sub connect_client {
    my ($config) = @_;
    my $sentinel = $config->{sentinel};
    my @server = $sentinel
        ? (sentinels => [map {"$_->{host}:$_->{port}"} @{$sentinel->{addresses}}], service => $sentinel->{master})
        : (server => "$config->{host}:$config->{port}");
    # The example of its documentation: retry for 60 s, every second.
    my @recommended = (reconnect => 60, every => 1_000_000);
    my $redis = Redis->new(
        @server,
        (defined $config->{user} ? (username => $config->{user}) : ()),
        (defined $config->{password} ? (password => $config->{password}) : ()),
        (reconnects($config) ? @recommended : ()),
    );
    $redis->select($config->{database}) if $config->{database};
    # Its PING returns nothing in place of an error.
    $redis->echo('ready');
    return $redis;
}

# A pipeline: each reply goes to its own function.
sub pipeline {
    my ($redis, $block, $is_get, $keys, $value) = @_;
    for my $key (@$keys) {
        my $take = sub {
            my ($reply, $error) = @_;
            if (defined $error) {
                $block->fail(kind_of($error), 1);
            } elsif ($is_get) {
                $block->check($reply);
            }
        };
        $is_get ? $redis->get($key, $take) : $redis->set($key, $value, $take);
    }
    $redis->wait_all_responses;
}

sub run {
    my ($redis, $config, $block, $keys, $value) = @_;
    my $is_get = $config->{operation} eq 'get';
    my $depth = $config->{mode} eq 'pipeline' ? $config->{depth} : 1;
    while ($block->goes_on($depth)) {
        my @chosen = map { $keys->[$block->choose] } 1 .. $depth;
        my $begun = now();
        my $is_done = eval {
            if ($depth > 1) {
                pipeline($redis, $block, $is_get, \@chosen, $value);
            } elsif ($is_get) {
                $block->check(scalar $redis->get($chosen[0]));
            } else {
                $redis->set($chosen[0], $value);
            }
            1;
        };
        $block->fail(kind_of("$@"), $depth) if !$is_done;
        $block->done($begun, $depth);
    }
}

# INCR of a key of its own, one after the other, with a line for each. By default the client leaves it to its user to connect again.
sub with_faults {
    my ($redis, $config, $block) = @_;
    for (my $sequence = 0; $block->goes_on(1); $sequence++) {
        my %op = (kind => 'incr', key => $config->{key_prefix} . $sequence, sequence => $sequence);
        my $begun = now();
        my $is_done = eval {
            $redis //= connect_client($config);
            $redis->incr($op{key});
            1;
        };
        if ($is_done) {
            $op{outcome} = 'acknowledged';
        } else {
            my $error = "$@";
            my $is_refusal = defined code_of($error);
            @op{qw(outcome error)} = ($is_refusal ? 'failed' : 'unknown', kind_of($error));
            undef $redis if !$is_refusal && !reconnects($config);
        }
        $op{ns} = now() - $begun;
        say_line({op => \%op});
        sleep(PAUSE);
    }
    return $redis;
}

sub main {
    $| = 1;
    # A lost connection is an error of the call, and not the end of the process.
    local $SIG{PIPE} = 'IGNORE';
    my $config = $JSON->decode(scalar <STDIN>);
    my $redis = connect_client($config);
    my @held;
    my @keys = map { sprintf '%s%08d', $config->{key_prefix}, $_ } 0 .. $config->{keys} - 1;
    my $value = 'x' x $config->{value_bytes};
    my %about = (client => 'perl-redis', version => $Redis::VERSION, runtime => sprintf('Perl %vd', $^V));
    $about{options} = [$config->{client} =~ /\.(recommended)$/];
    say_line({ready => \%about});
    while (my $line = <STDIN>) {
        my ($word, @numbers) = split ' ', $line;
        if ($word eq 'open') {
            push @held, connect_client($config) for 1 .. $numbers[0];
            say_line({opened => $numbers[0] + 0});
            next;
        }
        my $block = Block->new($config, map { $_ + 0 } @numbers);
        if ($config->{mode} eq 'faults') {
            $redis = with_faults($redis, $config, $block);
        } else {
            run($redis, $config, $block, \@keys, $value);
        }
        say_line({result => $block->result});
    }
}

eval { main(); 1 } or do {
    print STDERR $@;
    exit 1;
};

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

/** One block of operations: its end, its times and its costs. Callers on several threads can share it. */
final class Block {
    /** Nanoseconds of a tick, the unit in which the kernel reports CPU times. */
    private static final long TICK = 10_000_000;

    private static final long SECOND = 1_000_000_000;

    private final int valueBytes;
    private final int keys;
    private final long most;
    private final long duration;
    /** Operations per second of an open loop; 0 for a closed one. */
    private final long rate;
    private final Map<Integer, Long> slots = new TreeMap<>();
    /** Times since calls began, and how late they began (open loop). */
    private final Map<Integer, Long> service = new TreeMap<>();
    private final Map<Integer, Long> lag = new TreeMap<>();
    private final Map<String, Long> errors = new TreeMap<>();
    private final long gcBefore = gcMillis();
    private final long[] cpuBefore = cpuTicks();
    private final long start = System.nanoTime();
    private int state;
    private long begun;
    private long ops;
    private long misses;

    /** A call of {@code size} operations. */
    final class Call {
        private final int size;
        private final long due;
        private long lag;
        private long begun;

        private Call(int size, long due) {
            this.size = size;
            this.due = due;
        }

        /** Nanoseconds until it is due in an open loop; 0 if it is. */
        long untilDue() {
            return rate > 0 ? Math.max(due - System.nanoTime(), 0) : 0;
        }

        /** Notes how late its caller is, who waited for it. */
        Call waited() {
            lag = Math.max(System.nanoTime() - due, 0);
            return this;
        }

        Call begin() {
            begun = System.nanoTime();
            return this;
        }
    }

    Block(int valueBytes, int keys, long rate, String[] words) throws IOException {
        this.valueBytes = valueBytes;
        this.keys = keys;
        this.rate = rate;
        duration = Long.parseLong(words[1]);
        most = Long.parseLong(words[2]);
        state = Math.max((int) Long.parseLong(words[3]), 1);
    }

    /** The next call, once it is due; null at the end of the block. */
    Call next(int size) {
        Call call = take(size);
        if (call == null || call.untilDue() == 0) {
            return call;
        }
        for (long wait = call.untilDue(); wait > 0; wait = call.untilDue()) {
            LockSupport.parkNanos(wait);
        }
        return call.waited();
    }

    /** The next call, which may not be due yet; null at the end of the block. */
    synchronized Call take(int size) {
        if (most > 0 && begun >= most) {
            return null;
        }
        boolean isTimed = duration > 0 && begun > 0;
        if (isTimed && System.nanoTime() - start >= duration) {
            return null;
        }
        // Split, since the number of operations and nanoseconds of a second together can exceed a long.
        long due = rate > 0 ? begun / rate * SECOND + begun % rate * SECOND / rate : 0;
        if (isTimed && rate > 0 && due >= duration) {
            return null;
        }
        begun += size;
        return new Call(size, start + due);
    }

    /** The number of the next key: xorshift32, the same in all drivers. */
    synchronized int choose() {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return Integer.remainderUnsigned(state, keys);
    }

    /** Counts a call that has ended now. In an open loop its time is that since it was due. */
    synchronized void done(Call call) {
        long now = System.nanoTime();
        if (rate > 0) {
            record(slots, now - call.due, call.size);
            record(service, now - call.begun, call.size);
            record(lag, call.lag, call.size);
        } else {
            record(slots, now - call.begun, call.size);
        }
        ops += call.size;
    }

    private static void record(Map<Integer, Long> slots, long ns, int size) {
        int shift = Math.max(64 - Long.numberOfLeadingZeros(ns) - 11, 0);
        slots.merge(shift * 1024 + (int) (ns >>> shift), (long) size, Long::sum);
    }

    /** Looks at what a read returned. */
    synchronized void check(String value) {
        if (value == null) {
            misses++;
        } else if (value.length() != valueBytes) {
            errors.merge("WRONGVALUE", 1L, Long::sum);
        }
    }

    synchronized void fail(Throwable error, int size) {
        errors.merge(kindOf(error), (long) size, Long::sum);
    }

    /** The first word of an error reply, or the name of the client's error. */
    static String kindOf(Throwable error) {
        String word = String.valueOf(error.getMessage()).split(" ", 2)[0];
        return word.matches("[A-Z]{2,60}") ? word : error.getClass().getSimpleName();
    }

    synchronized JsonObject result() throws IOException {
        long elapsed = System.nanoTime() - start;
        long[] cpu = cpuTicks();
        JsonObject result = new JsonObject();
        result.addProperty("ops", ops);
        JsonObject failed = new JsonObject();
        errors.forEach(failed::addProperty);
        result.add("errors", failed);
        result.addProperty("misses", misses);
        result.addProperty("elapsed_ns", elapsed);
        result.addProperty("user_cpu_ns", (cpu[0] - cpuBefore[0]) * TICK);
        result.addProperty("system_cpu_ns", (cpu[1] - cpuBefore[1]) * TICK);
        result.addProperty("max_rss_bytes", maxRss());
        result.addProperty("gc_ns", (gcMillis() - gcBefore) * 1_000_000);
        result.add("histogram", pairs(slots));
        if (rate > 0) {
            result.add("service_histogram", pairs(service));
            result.add("lag_histogram", pairs(lag));
        }
        return result;
    }

    private static JsonElement pairs(Map<Integer, Long> slots) {
        List<long[]> pairs = new ArrayList<>();
        slots.forEach((slot, count) -> pairs.add(new long[] {slot, count}));
        return Driver.GSON.toJsonTree(pairs);
    }

    /** User and system time of the process, all threads together. */
    private static long[] cpuTicks() {
        try {
            String stat = Files.readString(Path.of("/proc/self/stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return new long[] {Long.parseLong(fields[11]), Long.parseLong(fields[12])};
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static long maxRss() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
            }
        }
        throw new IOException("no VmHWM");
    }

    private static long gcMillis() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
                .mapToLong(GarbageCollectorMXBean::getCollectionTime)
                .sum();
    }
}

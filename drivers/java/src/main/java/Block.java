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

/** One block of operations: its end, its times and its costs. Callers on several threads can share it. */
final class Block {
    /** Nanoseconds of a tick, the unit in which the kernel reports CPU times. */
    private static final long TICK = 10_000_000;

    private final int valueBytes;
    private final int keys;
    private final long most;
    private final long duration;
    private final Map<Integer, Long> slots = new TreeMap<>();
    private final Map<String, Long> errors = new TreeMap<>();
    private final long gcBefore = gcMillis();
    private final long[] cpuBefore = cpuTicks();
    private final long start = System.nanoTime();
    private int state;
    private long begun;
    private long ops;
    private long misses;

    Block(int valueBytes, int keys, String[] words) throws IOException {
        this.valueBytes = valueBytes;
        this.keys = keys;
        duration = Long.parseLong(words[1]);
        most = Long.parseLong(words[2]);
        state = Math.max((int) Long.parseLong(words[3]), 1);
    }

    /** Whether another call of {@code size} operations begins. */
    synchronized boolean goesOn(int size) {
        if (most > 0 && begun >= most) {
            return false;
        }
        if (duration > 0 && begun > 0 && System.nanoTime() - start >= duration) {
            return false;
        }
        begun += size;
        return true;
    }

    /** The number of the next key: xorshift32, the same in all drivers. */
    synchronized int choose() {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return Integer.remainderUnsigned(state, keys);
    }

    /** Counts a call of {@code size} operations that began at {@code begun} and has ended now. */
    synchronized void done(long begun, int size) {
        long ns = System.nanoTime() - begun;
        int shift = Math.max(64 - Long.numberOfLeadingZeros(ns) - 11, 0);
        slots.merge(shift * 1024 + (int) (ns >>> shift), (long) size, Long::sum);
        ops += size;
    }

    /** Looks at what a read returned. */
    synchronized void check(byte[] value) {
        if (value == null) {
            misses++;
        } else if (value.length != valueBytes) {
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
        List<long[]> histogram = new ArrayList<>();
        slots.forEach((slot, count) -> histogram.add(new long[] {slot, count}));
        result.add("histogram", Driver.GSON.toJsonTree(histogram));
        return result;
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

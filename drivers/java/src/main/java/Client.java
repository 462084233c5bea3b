/** What a client has to do. */
interface Client {
    String version();

    /** One call after the other. */
    void oneByOne(Block block);

    /** {@code depth} commands in one call. */
    void inPipelines(Block block, int depth);

    /** {@code callers} concurrent callers that share a connection. */
    default void multiplexed(Block block, int callers) throws InterruptedException {
        throw new UnsupportedOperationException("multiplexed");
    }

    void increment(String key);

    /** Whether the server has answered with an error. */
    boolean isRefusal(RuntimeException error);

    /** Opens one more connection and holds it. */
    void connectAnother();
}

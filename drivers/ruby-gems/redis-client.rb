# frozen_string_literal: true

# redis-client, on the socket of Ruby or on that of hiredis.

require "redis-client"
require_relative "../ruby/harness"

# The driver of redis-client.
class Client < Driver
  NAME = "redis-client"
  VERSION = RedisClient::VERSION
  ERROR = RedisClient::Error
  REFUSAL = RedisClient::CommandError

  def connect
    require "hiredis-client" if @socket == :hiredis
    options = {
      host: @config["host"],
      port: @config["port"],
      db: @config["database"],
      password: @config["password"],
      protocol: @config["resp"],
      driver: @socket
    }
    options[:username] = @config["user"] if @config["user"]
    redis = RedisClient.config(**options).new_client
    redis.call("PING")
    redis
  end

  def get(key) = @redis.call("GET", key)

  def set(key, value) = @redis.call("SET", key, value)

  def incr(key) = @redis.call("INCR", key)

  def get_all(keys)
    @redis.pipelined { |pipeline| keys.each { |key| pipeline.call("GET", key) } }
  end

  def set_all(keys, value)
    @redis.pipelined { |pipeline| keys.each { |key| pipeline.call("SET", key, value) } }
  end
end

drive(Client)

package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

type goRedis struct {
	options *redis.Options
	client  redis.UniversalClient
	held    []*redis.Conn
}

// recommend sets what the examples of "Production usage" in the documentation of go-redis set:
// https://redis.io/docs/latest/develop/clients/go/produsage/
func recommend(options *redis.Options) {
	options.MinRetryBackoff, options.MaxRetryBackoff = 10*time.Millisecond, 100*time.Millisecond
	options.MaxRetries = 5
	options.DialTimeout = 10 * time.Second
	options.ReadTimeout, options.WriteTimeout = 5*time.Second, 5*time.Second
}

func openGoRedis(config *config) client {
	options := &redis.Options{
		Addr:     config.address(),
		Username: text(config.User),
		Password: text(config.Password),
		DB:       config.Database,
		Protocol: config.Resp,
	}
	if config.Mode == "pool" {
		options.PoolSize = config.Concurrency
	}
	if config.isRecommended() {
		recommend(options)
	}
	c := &goRedis{options: options}
	switch {
	case config.Sentinel != nil:
		c.client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: config.Sentinel.Master, SentinelAddrs: config.Sentinel.addresses(), Username: options.Username,
			Password: options.Password, DB: options.DB, Protocol: options.Protocol, PoolSize: options.PoolSize,
			MinRetryBackoff: options.MinRetryBackoff, MaxRetryBackoff: options.MaxRetryBackoff, MaxRetries: options.MaxRetries,
			DialTimeout: options.DialTimeout, ReadTimeout: options.ReadTimeout, WriteTimeout: options.WriteTimeout,
		})
	case config.Cluster:
		c.client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{options.Addr}, Username: options.Username, Password: options.Password,
			Protocol: options.Protocol, PoolSize: options.PoolSize,
			MinRetryBackoff: options.MinRetryBackoff, MaxRetryBackoff: options.MaxRetryBackoff, MaxRetries: options.MaxRetries,
			DialTimeout: options.DialTimeout, ReadTimeout: options.ReadTimeout, WriteTimeout: options.WriteTimeout,
		})
	default:
		c.client = redis.NewClient(options)
	}
	if err := c.client.Ping(context.Background()).Err(); err != nil {
		die(err)
	}
	return c
}

func missed(err error) error {
	if errors.Is(err, redis.Nil) {
		return errMiss
	}
	return err
}

func (c *goRedis) get(ctx context.Context, key string) (string, error) {
	value, err := c.client.Get(ctx, key).Result()
	return value, missed(err)
}

func (c *goRedis) set(ctx context.Context, key, value string) error {
	return c.client.Set(ctx, key, value, 0).Err()
}

func (c *goRedis) pipeline(ctx context.Context, isGet bool, keys []string, value string, note func(string, error)) {
	pipe := c.client.Pipeline()
	for _, key := range keys {
		if isGet {
			pipe.Get(ctx, key)
		} else {
			pipe.Set(ctx, key, value, 0)
		}
	}
	replies, _ := pipe.Exec(ctx)
	for _, reply := range replies {
		if get, ok := reply.(*redis.StringCmd); ok {
			value, err := get.Result()
			note(value, missed(err))
		} else if err := reply.Err(); err != nil {
			note("", err)
		}
	}
}

func (c *goRedis) increment(ctx context.Context, key string) error {
	return c.client.Incr(ctx, key).Err()
}

func (c *goRedis) isRefusal(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func (c *goRedis) another(ctx context.Context) error {
	// A client of its own: the pool of one client is not for holding.
	conn := redis.NewClient(c.options).Conn()
	c.held = append(c.held, conn)
	return conn.Ping(ctx).Err()
}

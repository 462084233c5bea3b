package main

import (
	"context"

	"github.com/redis/rueidis"
)

type rueidisClient struct {
	options rueidis.ClientOption
	client  rueidis.Client
	held    []rueidis.Client
}

func openRueidis(config *config) client {
	options := rueidis.ClientOption{
		InitAddress: []string{config.address()},
		Username:    text(config.User),
		Password:    text(config.Password),
		SelectDB:    config.Database,
	}
	if config.Sentinel != nil {
		options.InitAddress = config.Sentinel.addresses()
		options.Sentinel = rueidis.SentinelOption{MasterSet: config.Sentinel.Master}
	}
	if config.Resp == 2 {
		options.AlwaysRESP2, options.DisableCache = true, true
	}
	made, err := rueidis.NewClient(options)
	if err != nil {
		die(err)
	}
	return &rueidisClient{options: options, client: made}
}

func textOf(reply rueidis.RedisResult) (string, error) {
	value, err := reply.ToString()
	if rueidis.IsRedisNil(err) {
		return "", errMiss
	}
	return value, err
}

func (c *rueidisClient) get(ctx context.Context, key string) (string, error) {
	return textOf(c.client.Do(ctx, c.client.B().Get().Key(key).Build()))
}

func (c *rueidisClient) set(ctx context.Context, key, value string) error {
	return c.client.Do(ctx, c.client.B().Set().Key(key).Value(value).Build()).Error()
}

func (c *rueidisClient) pipeline(ctx context.Context, isGet bool, keys []string, value string, note func(string, error)) {
	commands := make(rueidis.Commands, 0, len(keys))
	for _, key := range keys {
		if isGet {
			commands = append(commands, c.client.B().Get().Key(key).Build())
		} else {
			commands = append(commands, c.client.B().Set().Key(key).Value(value).Build())
		}
	}
	for _, reply := range c.client.DoMulti(ctx, commands...) {
		if isGet {
			note(textOf(reply))
		} else if err := reply.Error(); err != nil {
			note("", err)
		}
	}
}

func (c *rueidisClient) increment(ctx context.Context, key string) error {
	return c.client.Do(ctx, c.client.B().Incr().Key(key).Build()).Error()
}

func (c *rueidisClient) isRefusal(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

func (c *rueidisClient) another(context.Context) error {
	made, err := rueidis.NewClient(c.options)
	c.held = append(c.held, made)
	return err
}

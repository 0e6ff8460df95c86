// Package redisconn holds what all parts of roomd need of Redis beyond go-redis.
//
// Here are scripts that survive a moving slot of a Redis Cluster, the search for a new
// master, and shared timeouts. Package redisurl makes a client from a URL, embedded is a
// Redis inside the process, and pubsub keeps subscriptions that know what they missed.
package redisconn

// Package pubsub keeps one pub/sub connection to Redis for any number of
// subscriptions, knows when each of them is active, and says when messages may have
// been missed. On Redis Cluster it uses sharded channels, with one connection to each
// master that has some of them.
//
// Start with [New] and [Hub.Subscribe].
//
// # What it promises
//
//   - A hub never gives up: it tries a subscription again, from the start or after a lost
//     connection, until that is closed. [Subscription.Wait] returns the error of one attempt.
//   - [Handler.Interrupted] says that messages may have been missed.
//   - A channel that the user may not subscribe to (NOPERM) does not disturb the others: it
//     is tried by itself, with pauses that grow to some seconds. The user needs PING, too.
//
// # What it does not promise
//
// Redis delivers a message at most once. Whatever is published while a subscription is not
// active is lost.
//
// # Goroutines
//
// None until the first subscription. Then one, two for each connection, and one for each
// pause before another attempt. [Hub.Close] ends them and waits for them.
package pubsub

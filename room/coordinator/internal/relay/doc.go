// Package relay copies the commits of all rooms from their journals into one stream, the feed, from which others read on
// from any place.
//
// Start with [New]. The node that has committed to a room reads what its journal has beyond what the feed has of it, and
// appends that by a script, which checks that nobody else has done so meanwhile. So each room's commits are in the feed once,
// in their order, whichever nodes take part. What a node has not copied before it died, another one finds, by
// looking at all journals now and then. Where a journal lacks commits, a [Gap] stands in their place.
//
// The keys of the feed are in one hash slot. One goroutine copies, and one looks for what is missing.
package relay

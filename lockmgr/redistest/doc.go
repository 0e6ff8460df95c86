// Package redistest gives tests a Redis: real redis-servers of their own ([Start],
// [StartCluster], [StartSentinel]), or an in-process one with a virtual clock ([Mini]). A
// [Proxy] in front of a server and a [Hook] in a client make requests and replies go missing.
//
// Everything ends with the test that started it. Servers also end with the test binary, as
// package launch says. Each server and each connection through a Proxy has two goroutines.
package redistest

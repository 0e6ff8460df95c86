// Package size says how many nodes and servers of Redis a number of players needs.
//
// [Load.Plan] computes it from what single things cost: an action, an event, a connection, a room. These [Costs] were measured,
// by package measure, and stand in one table: names, units and meanings in Go, the values in measured.json, which
// roomload size --calibrate writes. The computation is pure. It knows no machine, and says so: what it says of a million
// players is computed. Package measure compares it with runs.
package size

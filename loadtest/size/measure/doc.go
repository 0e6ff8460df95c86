// Package measure measures the costs that package size computes with, and compares its predictions with runs.
//
// A trial is servers of Redis, nodes with roomd's defaults, and clients, each in processes of their own, on this machine. Players at tables
// act at a fixed rate, whether the servers keep up or not: of ten actions four set the room's data, two say who is ready, two are
// messages, and two are a leave and a join. Processor time is counted by process, so what else runs on the machine matters less;
// of several short rounds the median counts. [Calibrate] derives the costs from the differences between trials; [Check] runs
// others, and says how far what the costs predict is from what they use.
package measure

// Package report draws the reports of the load test, the bench and the lab: one
// page, one style, one kind of plot and of table.
//
// [Page] is a self-contained web page, [SVG] and [Latency] draw the plots on it, and
// [Columns] writes the tables for people. The package does not know what was measured.
package report

// Package uplot embeds uPlot 1.6.32, a small library for charts (https://github.com/leeoniya/uPlot, MIT: see
// LICENSE), for the operators' page and the reports of the load test. The files are uPlot.iife.min.js and
// uPlot.min.css of its release on npm.
package uplot

import "embed"

// Files are uplot.js, which defines the global uPlot, and uplot.css.
//
//go:embed uplot.js uplot.css
var Files embed.FS

// Script and Style are the contents of the two files.
var (
	//go:embed uplot.js
	Script string
	//go:embed uplot.css
	Style string
)

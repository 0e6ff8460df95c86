// Package report draws the reports of the load test, the bench and the lab: one page, one style, one
// kind of plot and of table.
//
// [Page] is a self-contained web page that needs no script. [Table] and [Facts] are rows for both
// readers: WriteText writes them for a terminal, HTML for the page. [Plot] draws a figure whose
// letters and colours are those of the page, in light and dark. The package does not know what was
// measured.
package report

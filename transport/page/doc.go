// Package page has the files that a browser gets from a node: the page at /, a card table to sit down at, and
// roomd.js, the client, which other pages use as well.
//
// New returns the handler of the files, all of which are embedded. The page is plain HTML, CSS and JavaScript
// modules, without a build. Its Content-Security-Policy allows files of this server only: no inline script or style,
// no frame around it. Names and messages are shown as text, never as markup.
//
// The files in assets, from page.js on: table.js shows a table, and lobby.js the list of tables. In stampede.js many
// players want one table at once, with and without a lock; crowd.js plays them.
//
// Admin returns the handler of the operators' page in admin, from admin.js on. The page polls the operators' API
// about once a second; nodes.js, charts.js, rooms.js and room.js show the results.
//
// The package runs no goroutines.
package page

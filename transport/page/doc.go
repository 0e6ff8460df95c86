// Package page has what a browser gets from a game node: the page at /, which is a card table to
// sit down at, and roomd.js, the client that other pages use as well.
//
// New returns the handler of the files, all of which are embedded. The page is plain HTML, CSS and JavaScript
// modules, without a build. It loads nothing from elsewhere, and its Content-Security-Policy allows nothing else: no
// inline script or style, no frame around it. Names and messages are shown as text, never as markup.
//
// The files in assets, from page.js on: table.js shows a table, lobby.js the list of tables, stampede.js has many
// players want the same table at once, and compares; crowd.js plays them, there and at a list without a lock.
//
// Admin returns the handler of the operators' page, whose files are in admin, from admin.js on: it
// asks the operators' API about once a second, and nodes.js, charts.js, rooms.js and room.js show what that says.
//
// The package runs no goroutines.
package page

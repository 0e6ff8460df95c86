// Package scenarios has the list of what every client of roomd has to do, and a scripted server that
// checks it: [Run] plays the list against a client, written in any language.
//
// A test gives Run its client as a [Subject]. The subject carries out these commands of a program. An
// argument that begins with {, [ or " is JSON. An answer is "ok" where nothing else is said, "error CODE"
// with the code of the error, or JSON.
//
//	connect OPTIONS            as type Options; answers when connected
//	join ROOM [{"seat":2}]     or {"history":5}; likewise watch (with history), leave, unwatch, and: ready ROOM true|false, set ROOM DATA,
//	                           setMember ROOM DATA, setPrivate ROOM DATA, setPrivateOf ROOM USER DATA, say ROOM TEXT, sayTo ROOM USER TEXT,
//	                           propose ROOM MOVE
//	timer ROOM NAME MS [THEN]  sets a timer; MS null cancels it. swap ROOM USER USER, shuffle ROOM, and txn ROOM ACTIONS
//	update ROOM N              adds N to the room's data, which is a number, 0 if there is none
//	users ROOM                 answers as view, without seat
//	close                      closes the client
//	view ROOM                  {"epoch","version","users","settings","host","data","private","seat"}; seat only of a member,
//	                           host, data, private by user, and the names of timers only if there are some, settings without what is zero. "none": there is no such room
//	iterate ROOM NAME          begins to iterate over the room's changes. It has begun when the answer comes
//	next NAME                  the next change as the protocol has it, and epoch and version; of a snapshot only
//	                           {"type","epoch","version"}. "end" if the iteration is over
//	lobby QUERY                begins to follow the lobby: {"prefix","contains","labels","free","sort"}
//	list                       the client's next list, {"rooms":["ID COUNT/CAPACITY"],"stale":true}, stale only if it is; or the
//	                           error that ends it, and then "end"
//	unlist                     ends following the lobby
//	state                      the state, and behind a space the code of the client's error, if it has one
//	ended ROOM                 the code of the error of the room that is, or was, there, and behind a space the
//	                           reason if the code is lost. "no" as long as the room goes on
//
// Codes are the server's. The client's own are unknown, timeout, left, unwatched, lost, client_closed, replaced
// (closed with 4001) and disconnected (closed with another code that is the client's fault).
//
// The server runs a goroutine for each connection, which ends with the scenario.
package scenarios

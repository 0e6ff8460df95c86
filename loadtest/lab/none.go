package lab

import "roomd/loadtest/lab/anomaly"

// none is where all articles begin: GET the list, append, SET it. A caller that reads
// while another is about to write gets an outdated list. It appends blindly, so a user
// whose leave was overwritten, and who joins again, is in the list twice.
var none = discipline{
	name:  "none",
	about: "GET list, append blindly, SET list",
	ttl:   10, // there is no lock; it only sets the length of a pause
	steps: []step{stepRead, stepWrote},
	way:   list{},
	listed: []listed{
		{text: "lost updates", fault: pauseWrite, anomaly: anomaly.Lost},
		{text: "dirty reads", fault: pauseWrite, anomaly: anomaly.TwoHolders},
		{text: "duplicates", fault: contention, anomaly: anomaly.Duplicate},
	},
}

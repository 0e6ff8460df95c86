package lab

import "roomd/loadtest/lab/anomaly"

// none is what all begin with: GET the list, append, SET it. Who reads while
// another is about to write reads a list that is already history. It appends
// blindly: whose leave was overwritten so, and who joins again, stands in it twice.
var none = discipline{
	name:  "none",
	about: "GET list, append blindly, SET list",
	ttl:   10, // of no lock; how long a pause is
	steps: []step{stepRead, stepWrote},
	way:   list{},
	listed: []listed{
		{text: "lost updates", fault: pauseWrite, anomaly: anomaly.Lost},
		{text: "dirty reads", fault: pauseWrite, anomaly: anomaly.TwoHolders},
		{text: "duplicates", fault: contention, anomaly: anomaly.Duplicate},
	},
}

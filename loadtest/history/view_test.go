package history

import "testing"

func TestView_Anomalies(t *testing.T) {
	tell(t, []story{
		// What one connection sees.
		{"the reply's list lacks who joined", "lost", `b joins 1 b0; a joins 2 b0 @1; end 2 b0`},
		{"the reply's list has another seat", "diverged", `a joins 1 a1 @0`},
		{"an event joins who is there", "duplicate", `two; a b see 3 +a0; end 3 a0 b1`},
		{"a list names a user twice", "duplicate", `a joins 1 a0 a1; a lists 1 a0 a1`},
		{"an event takes out who is not there", "phantom", `a joins 1 a0; a sees 2 -b; end 2 a0`},
		{"an event seats two on one seat", "seat_clash", `a joins 1 a0; a sees 2 +b0; b joins 2 a0 b0; end 2 a0 b0`},
		{"a list has two on one seat", "seat_clash", `a lists 1 b0 c0; a lists 2 b0 c0`},
		{"an event overfills the room", "oversold", `capacity 1; a joins 1 a0; a sees 2 +b1; end 2 a0 b1`},
		{"a list is longer than the capacity", "oversold", `capacity 1; a lists 2 b0 c1`},
		{"a count above the capacity, and not the list's", "oversold, diverged", `capacity 2; a lists 2/3 b0 c1`},
		{"a count that is not the list's", "diverged", `a lists 2/1 b0 c1`},
		{"a change of an unknown type", "diverged", `a joins 1 a0; a sees 2 ^a0`},
		{"an event is left out", "version_gap",
			`a joins 1 a0; b joins 2 a0 b1; c joins 3 a0 b1 c2; b sees 3 +c2; a sees 3 +c2; a b c see 4 -b; end 4 a0 c2`}, // blind then, a cannot tell a phantom
		{"an event comes twice, and the view goes on", "phantom, version_gap",
			`a joins 1 a0; b joins 2 a0 b1; a a see 2 +b1; a sees 3 -c; end 3 a0 b1`},
		{"an event goes from new to old, and the view goes on", "phantom, version_gap",
			`a joins 1 a0; a sees 5-3; a sees 2 -c; end 2 a0`},
		{"an event spans nothing", "version_gap", `a joins 1 a0; a sees 1-1; end 1 a0`},
		{"an event of an epoch without a list", "version_gap", `a joins 1 a0; epoch e2; a sees 2; epoch e1; end 1 a0`},
		{"an event of an epoch without a list, data loss declared", "version_gap",
			`loss; a joins 1 a0; epoch e2; a sees 2; epoch e1; end 1 a0`},
		{"an event before any list", "version_gap", `a sees 2 +b1`},
		{"an event after a leave", "version_gap", `a joins 1 a0; a leaves 2/0; b joins 3 b0; a sees 3 +b0; end 3 b0`},
		{"a snapshot goes back", "version_gap", `a joins 1 a0; a sees 2; a gets 1 a0; end 2 a0`},
		{"a join after a leave has the version of the leave", "version_gap, diverged", `a joins 1 a0; a leaves 2/0; a joins 2 a0`}, // one user, zero users
		{"one more join goes back", "version_gap", `a joins 1 a0; a sees 2; a joins 1 a0; end 2 a0`},
		{"a leave goes back", "version_gap", `a joins 2 a0; a leaves 1/0`},
		{"a leave that is not in its version", "lost", `b joins 1 b1; a joins 2 b1 a0; b sees 2 +a0; a b see 3 +c2; a leaves 3/3`},
		{"a new epoch", "version_gap", `a joins 3 a0; epoch e2; a gets 1 a0; end 1 a0`},
		// What two connections see.
		{"two lists at one version", "diverged", `a lists 5 x0; b lists 5 y0; c lists 5 y0`},
		{"a count and a list at one version", "diverged", `a leaves 5/3; b lists 5 y0`},
		{"two counts at one version", "diverged", `start 1 a0 b1 c2; a leaves 2/1; b leaves 2/2; end 2 c2`},
		{"two events at one version that come to the same", "diverged",
			`a joins 1 a0 b1; b joins 1 a0 b1; a sees 2 +c2 -c; b sees 2 +c3 -c; end 2 a0 b1`},
		{"two events at one version", "diverged", `two; a sees 3 +c2; b sees 3 +d2; end 3 a0 b1 c2`},
		{"a merged event and single ones", "diverged", `two; a sees 3 +c2; a sees 4 -c; b sees 2-4 +d2 -d; end 4 a0 b1`},
	})
}

func TestView_State(t *testing.T) {
	w := newWorld(t, Options{})
	v := w.view("r", "a")
	if got := v.State(); got.Version != 0 || got.Users != nil {
		t.Errorf("before any list it is %v", got)
	}
	w.play("a joins 1 a0; a sees 2 +b1")
	if got := v.State(); got.Epoch != "e1" || got.Version != 2 || fingerprintOf(got.Users) != fingerprintOf(members("a0 b1")) {
		t.Errorf("after an event it is %v", got)
	}
	w.play("a leaves 3/1")
	if got := v.State(); got.Epoch != "" || got.Users != nil {
		t.Errorf("after a leave it is %v", got)
	}
}

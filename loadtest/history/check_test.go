package history

import "testing"

func TestCheck_CleanHistories(t *testing.T) {
	tell(t, []story{
		{"a room that nobody used", "", `epoch; a lists 0; end 0`},
		{"one user joins and leaves", "", `a joins 1 a0; a leaves 2/0; end 2`},
		{"the version goes on in an emptied room", "",
			`a joins 1 a0; a leaves 2/0; b joins 3 b0; a joins 4 a1 b0; b sees 4 +a1; end 4 b0 a1`},
		{"a batch passes a seat on", "", `capacity 2; two; a leaves 3/2; c joins 3 b1 c0; b sees 3 -a +c0; end 3 b1 c0`},
		{"a batch that no event shows", "",
			`capacity 2; a joins 1 a0 b1; b joins 1 a0 b1; c joins 2 c0 d1; a leaves 2/2; b leaves 2/2; d joins 2 c0 d1; end 2 c0 d1`},
		{"one more join of a member, here and in a new session", "",
			`a joins 1 a0; a joins 1 a0; a cut; a joins 2 a0; b joins 3 a0 b1; a sees 3 +b1; a joins 3 b1 a0; a b see 4; end 4 a0 b1`}, // 2 is a commit that changes no list
		{"merged events beside single ones", "",
			`a joins 1 a0; b joins 2 a0 b1; c joins 3 a0 b1 c2; c leaves 4/2; b sees 3 +c2; b sees 4 -c; a sees 1-4 +b1 +c2 -c;
				end 4 a0 b1`},
		{"only merged events, overlapping", "",
			`a joins 1 a0; b joins 2 a0 b1; a sees 1-4 +b1 +c2 +d3; a cut; b sees 2-6 +c2 +d3 -a +e0; end 6 b1 c2 d3 e0`},
		{"a snapshot skips versions", "",
			`a joins 1 a0; b joins 2 a0 b1; b leaves 3/1; a gets 3 a0; c joins 4 a0 c1; a sees 4 +c1; end 4 a0 c1`},
		{"users replies older and newer than the picture", "",
			`a joins 1 a0; a lists 2 a0 b1; b joins 2 a0 b1; a sees 2 +b1; a lists 1 a0; end 2 a0 b1`},
		{"the event of a leave overtakes its reply", "", `a joins 1 a0; a sees 2 -a; a leaves 2/0; end 2`},
		{"one more join within a merged event that moves the user", "",
			`start 1 a0 b1; b joins 1 a0 b1; a joins 2 a0 b1; a leaves 3/1; a joins 4 b1 a2; b sees 1-4 -a +a2; end 4 b1 a2`}, // 2 is a commit that changes no list
		{"a merged event goes on after another that changed nothing", "",
			`start 2 a0 b1 c2; a maybe leave; a maybe join; a maybe leave; b joins 2 a0 b1 c2; c joins 2 a0 b1 c2; c sees 2-4 -a +a0;
				c leaves 5/2; b sees 2-5 -a +a0 -c; b gets 6 b1; end 6 b1`},
		{"a merged event goes on in the middle of another, after unseen versions", "",
			`start 1 a0 b1; x lists 5 b1 d0; b joins 1 a0 b1; a leaves 2/1; c joins 3 b1 c0; b gets 3 b1 c0; c leaves 4/1;
				d joins 5 b1 d0; y gets 2 b1; y sees 2-6 +c0 -c +d0 +e2; end 6 b1 d0 e2`},
		{"a watcher", "", `a joins 1 a0; watcher gets 1 a0; a leaves 2/0; watcher sees 2 -a; end 2`},
		{"a room that is not fresh", "", `start 7 x0 y1; x joins 7 x0 y1; y leaves 8/1; x sees 8 -y; end 8 x0`},
		{"declared data loss", "", `loss; a joins 9 a0; epoch e2; a gets 1 a0; b joins 2 a0 b1; a sees 2 +b1; end 2 a0 b1`},
	})
}

func TestCheck_AnomaliesThatTheEndShows(t *testing.T) {
	tell(t, []story{
		{"an acknowledged join is gone", "lost", `two; end 2 a0`},
		{"an acknowledged leave is gone", "lost", `a joins 1 a0; a leaves 2/0; end 2 a0`},
		{"an unknown outcome does not excuse another user", "lost", `a joins 1 a0; b joins 2 a0 b1; b unsure leave; end 3`},
		{"an unknown leave does not excuse a seen version", "lost", `two; b unsure leave; end 2 a0`},
		{"an older unknown leave does not excuse a seen version", "lost", `two; b maybe leave; end 2 a0`},
		{"a user is there who never joined", "phantom", `a joins 1 a0; end 1 a0 x1`},
		{"a user is in a room that nobody used", "phantom", `end 0 x1`},
		{"a user has another seat", "diverged", `a joins 1 a0; end 1 a4`},
		{"a user has another user's seat", "seat_clash", `two; end 2 a0 b0`},
		{"the room is at an older version", "lost", `two; end 1 a0`},
		{"the room is gone", "lost", `a joins 1 a0; end`},
		{"the room is in another epoch", "version_gap", `a joins 1 a0; epoch e2; end 1 a0`},
		{"after data loss the end is not what was seen", "diverged", `loss; a joins 1 a0; epoch e2; a gets 1 a0; end 1`},
	})
}

// Two nodes read version 1 and both write version 2. Only the later write survives.
func TestCheck_LostUpdate(t *testing.T) {
	tell(t, []story{
		{"in an empty room", "lost, diverged", `a joins 1 a0; b joins 1 b0; end 1 b0`},
		{"before a witness", "lost, version_gap, diverged",
			`x joins 1 x0; a joins 2 x0 a1; x sees 2 +a1; b joins 2 x0 b1; x sees 2 +b1; end 2 x0 b1`},
		{"without versions that tell them apart", "lost, seat_clash", `a joins 1 a0; b joins 2 b0; end 2 b0`}, // b's is written over a's
	})
}

func TestCheck_Node(t *testing.T) {
	final := RoomState{Epoch: "e1", Version: 3, Users: members("a0 b1")}
	tests := []struct {
		name   string
		answer RoomState
		want   Counts
	}{
		{"the same in another order", RoomState{Epoch: "e1", Version: 3, Users: members("b1 a0")}, Counts{}},
		{"an older version", RoomState{Epoch: "e1", Version: 2, Users: members("b1 a0")}, Counts{Diverged: 1}},
		{"another epoch", RoomState{Epoch: "e2", Version: 3, Users: members("b1 a0")}, Counts{Diverged: 1}},
		{"another list", RoomState{Epoch: "e1", Version: 3, Users: members("b1 a2")}, Counts{Diverged: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.l.CheckNode("node-1", "r", tt.answer, final)
			w.l.CheckNode("node-1", "r", tt.answer, final)
			w.expect(tt.want)
		})
	}
}

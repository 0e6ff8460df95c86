package history

import "testing"

func TestReplay_Anomalies(t *testing.T) {
	tell(t, []story{
		{"an acknowledged join is not in the commit", "lost", `a joins 1 a0; a sees 2 +b1; acked 2 c2; end 2 a0 b1`},
		{"an acknowledged leave is not in the commit", "lost", `two; a sees 3; b leaves 3/2; end 3 a0 b1`},
		{"an acknowledged leave is not in a merged event", "lost",
			`a joins 1 a0; b joins 2 a0 b1; b leaves 3/2; a sees 1-4 +b1 +c2; end 4 a0 b1 c2`},
		{"a join is acknowledged and committed on two seats", "diverged", `a joins 1 a0; a sees 2 +b1; acked 2 b2; end 2 a0 b1`},
		{"one more join is acknowledged on another seat", "diverged", `a joins 1 a0; a sees 2 +b1; acked 2 a5; end 2 a0 b1`},
		{"an acknowledged join is not in the commit, but is in the end", "lost",
			`a joins 1 a0; a sees 2 +b1; acked 2 c2; end 2 a0 b1 c2`},
		{"one more join is acknowledged on another seat, unseen", "diverged", `a joins 1 a0; a cut; acked 2 b1; acked 3 b5; end 3 a0 b1`},
		{"a version that is in no message", "version_gap", `a joins 1 a0; a leaves 2/0; b joins 4 b0; end 4 b0`},
		{"a last version that is in no message", "version_gap", `a joins 1 a0; end 2 a0`},
		{"more versions than unknown outcomes", "version_gap", `a joins 1 a0; a leaves 2/0; a unsure join; end 4 a0`},
		{"an unknown join leaves no trace by itself", "version_gap",
			`a joins 1 a0; b unsure join; a unsure leave; c joins 3 a0 c1; end 3 a0 c1`},
		{"an unknown join from after the version", "version_gap",
			`a joins 1 a0; a leaves 2/0; c joins 4 c0; c maybe leave 4; b maybe join 4; end 4 c0`},
		{"an unknown join that was seen explains nothing more", "version_gap",
			`a joins 1 a0; b unsure join; a sees 2 +b1; a leaves 3/1; end 4 b1`},
		{"an unknown join that was seen in a merged event explains nothing more", "version_gap",
			`a joins 1 a0; b unsure join; a sees 1-3 +b1; a leaves 4/1; end 5 b1`},
		{"an unknown leave does not make room before it was asked for", "seat_clash",
			`a joins 1 a0; a maybe leave 2; acked 2 b0; end 2 a0 b0`},
		{"a leave of who was not there, unseen", "phantom", `a leaves 1/0; end 1`},
		{"an acknowledged leave is not in the next list", "lost", `start 1 a0 b1; a leaves 2/2; b joins 2 a0 b1; end 2 a0 b1`},
		{"a list that the history does not make", "diverged",
			`a joins 1 a0; a sees 2 +b1; c lists 1 a0; a leaves 3/1; b leaves 4/0; c joins 5 c0 x4; c leaves 6/1; end 6`},
		{"a count that the history does not make", "diverged", `a joins 1 a0; a leaves 2/1; end 2`},
		{"a list within a merged event that it does not make", "diverged",
			`a joins 1 a0; x lists 3 a0 c2; a sees 1-4 +b1 +c2 +d3; end 4 a0 b1 c2 d3`},
		{"a batch loses one of its joins", "lost", `acked 1 b1; a joins 1 a0; end 1 a0`},
	})
}

// Requests with an unknown outcome may or may not have been committed.
func TestUnknown_Tolerated(t *testing.T) {
	tell(t, []story{
		{"an unknown join that an event shows", "", `a joins 1 a0; b unsure join; a sees 2 +b1; b sees 2 +b1; end 2 a0 b1`}, // b's session may be told, or not
		{"an unknown join that never happened", "", `a joins 1 a0; b unsure join; b joins 2 a0 b1; a sees 2 +b1; end 2 a0 b1`},
		{"unknown joins that only the end shows", "", `a unsure join; b unsure join; end 1 b1 a0`},
		{"an unknown join in a batch that no event shows", "", `b unsure join; a joins 1 b0 a1; a sees 2 -b; end 2 a1`},
		{"an unknown join and the leave after it", "", `a unsure join; a leaves 2/0; end 2`},
		{"an unknown join between versions that lists show", "", `a joins 1 a0; b unsure join; a gets 2 a0 b1; end 2 a0 b1`},
		{"a connection is cut and its member leaves", "", `a joins 1 a0; a cut; b joins 3 b0; end 3 b0`},
		{"a seat is lost, and the event of it was seen", "",
			`capacity 2; two; a sees 3 -a; b sees 3 -a; c joins 4 c0 b1; b sees 4 +c0; a lost; end 4 c0 b1`},
		{"a seat is lost unseen, and the user joins again", "", `capacity 1; a joins 1 a0; a lost; a joins 3 a0; end 3 a0`},
		{"connections are cut and the members stay", "", `two; a cut; b cut; end 2 a0 b1`},
		{"an unknown leave frees a seat in a full room", "", `capacity 1; a joins 1 a0; a cut; b joins 2 b0; end 2 b0`},
		{"an unknown leave, then another seat", "", `a joins 1 a0; a cut; a joins 3 a5; end 3 a5`},
		{"an unknown leave and join that the end shows", "", `a joins 1 a0; a unsure leave; a unsure join; a cut; end 3 a3`},
		{"a snapshot shows a leave whose answer is lost", "", `a joins 1 a0; a gets 2; a unsure leave; end 2`},
		{"an unknown leave and join, and another one joins", "", `a joins 1 a0; a unsure leave; a unsure join; b joins 4 a0 b1; end 4 a0 b1`},
		{"an unknown leave and join, and one more join is answered", "",
			`a joins 1 a0; a unsure leave; b lists 2; a unsure join; a joins 4 a0 b1; b joins 4 a0 b1; end 4 a0 b1`},
		{"an unknown leave and join on another seat, and one more join is answered", "",
			`a joins 1 a1 b0; b joins 1 a1 b0; a unsure join; a cut; b unsure leave; b gets 2 a1; b unsure join; a joins 6 a0 b1;
				b sees 6; end 6 a0 b1`},
		{"an unknown join on a seat that only lists show", "", `b unsure join; a joins 1 a0 b7; a sees 2 -b; end 2 a0`},
		{"many unknown outcomes, and an event at the end", "",
			`a b c d e f g h i j k l maybe join; z joins 2 a0 b10 c20 d30 e40 f50 g60 h70 i80 j90 k100 l110 z995; z sees 3 -a;
				end 3 b10 c20 d30 e40 f50 g60 h70 i80 j90 k100 l110 z995`}, // too many to try
		{"many unknown outcomes at once", "",
			`a b c d e f g h i j k l maybe join; z joins 2 a0 b10 c20 d30 e40 f50 g60 h70 i80 j90 k100 l110 z995; z sees 3 -a;
				z sees 4 +a7; z leaves 5/12; end 5 b10 c20 d30 e40 f50 g60 h70 i80 j90 k100 l110 a7`}, // too many to try
		{"many unknown outcomes, and events that tell of all", "",
			`start 1 y5; y maybe leave 1; a b c d e f g h i j k l maybe join;
				z joins 3 a0 b10 c20 d30 e40 f50 g60 h70 i80 j90 k100 l110 z995; z sees 4 -a -b -c -d -e -f -g -h -i -j -k -l; z sees 5 +y6;
				z sees 6; end 6 y6 z995`},
		{"many unknown leaves, some committed", "",
			`start 1 a0 b1 c2 d3 e4 f5 g6 h7 i8; a b c d e f g h maybe leave 1; z joins 4 z0 b1 d3 f5 i8; z sees 5 -b; end 5 z0 d3 f5 i8`},
	})
}

// Away and back are versions that change no list, and concern a member; so are settings. Who was
// cut off may be away at a version that nobody saw.
func TestAway_AndBack(t *testing.T) {
	tell(t, []story{
		{"away, back, away and gone", "",
			`two; b cut; a sees 3 ?b1; b joins 4 a0 b1; a sees 4 !b1; a b see 5 ?a0; b sees 6 -a; end 6 b1`},
		{"all of it in one event, with a rejoin", "", `two; b cut; a sees 2-5 ?b1 -b +b1; end 5 a0 b1`},
		{"other settings", "", `two; a b see 3 %0; end 3 a0 b1`},
		{"away and gone while nobody looks", "", `a joins 1 a0; a cut; end 3`},
		{"away while nobody looks, but nobody was cut off", "version_gap", `a joins 1 a0; end 2 a0`},
		{"a reserved seat lapses while nobody looks", "", `admin 1 reserve a0 b1; a b lapses 1; end 3`},
		{"a reserved seat lapses while nobody looks, and somebody comes later", "",
			`admin 1 reserve a0; a lapses 1; b joins 3 b0; end 3 b0`},
		{"a reserved seat lapses while nobody looks, and its user comes later", "",
			`admin 1 reserve a0; a lapses 1; a joins 3 a0; end 3 a0`},
		{"who came to a reserved seat does not lose it", "lost, version_gap", `admin 1 reserve a0; a lapses 1; a joins 2 a0; end 3`},
		{"who is moved in is back while nobody looks", "", `admin 1 in a0; b joins 3 a0 b1; b sees 4 -a; end 4 b1`},
		{"who is moved in is back, and nothing explains another version", "version_gap",
			`b joins 1 b1; admin 2 in a0; b sees 2 +a0?; b sees 3 !a0; b leaves 5/1; end 5 a0`},
		{"who has left a room that closed unseen is not ready any more", "",
			`two; a b see 3 *a0!; a does 3/2 ready; admin 4 close; c joins 5 c0; c sees 6 +a1; a joins 6 c0 a1; a does 6/2 unready;
				end 6 a1 c0`},
		{"a list lacks who is away", "diverged", `two; a sees 3 ?b1; b lists 3 a0 b1; end 3 a0 b1?`},
		{"away in the list, and back", "", `two; b lists 3 a0? b1; b sees 3 ?a0; b sees 4 !a0; end 4 a0 b1`},
		{"away without being there", "phantom", `two; a b see 3 ?c2; end 3 a0 b1`},
		{"away twice", "diverged", `two; a sees 3 ?b1; a sees 4 ?b1; end 4 a0 b1`},
		{"back without having been away", "diverged", `two; a sees 3 !b1; end 3 a0 b1`},
		{"away on another seat", "diverged", `two; a sees 3 ?b0; end 3 a0 b1`},
		{"one is told that b is away, and another one that a is", "diverged", `two; a sees 3 ?b1; b sees 3 ?a0; end 3 a0 b1`},
		{"an acknowledged leave is only shown as away", "diverged", `two; b leaves 3/1; a sees 3 ?b1; end 3 a0 b1`},
	})
}

package history

import "testing"

func TestGroups_Parties(t *testing.T) {
	tell(t, []story{
		{"all come, connect and leave", "",
			`a joins 1 a0; admin 2 reserve b1 c2; a sees 2 +b1? +c2?; b joins 3 a0 b1 c2?; a sees 3 !b1; admin 4 release b1 c2;
				a sees 4 -b -c; b leaves 4/1; end 4 a0`},
		{"one of them is there, and keeps the seat", "", `a joins 1 a0; admin 2 reserve a0 b1; a sees 2 +b1?; end 2 a0 b1?`},
		{"one of them is there, and the outcome is unknown", "", `a joins 1 a0; admin unsure reserve a0 b1; a sees 2 +b1?; end 2 a0 b1?`},
		{"all come unseen", "", `a joins 1 a0; admin 2 reserve b1 c2; end 2 a0 b1? c2?`},
		{"all come, with an unknown outcome", "", `a joins 1 a0; admin unsure reserve b1 c2; a sees 2 +b1? +c2?; end 2 a0 b1? c2?`},
		{"none comes, with an unknown outcome", "", `a joins 1 a0; admin unsure reserve b1 c2; end 1 a0`},
		{"one of them comes, with an unknown outcome", "torn", `a joins 1 a0; admin unsure reserve b1 c2; a sees 2 +b1?; end 2 a0 b1?`},
		{"one of a refused party comes", "torn", `a joins 1 a0; admin refused reserve b1 c2; a sees 2 +b1?; end 2 a0 b1?`},
		{"one of an acknowledged party comes", "lost", `a joins 1 a0; admin 2 reserve b1 c2; a sees 2 +b1?; end 2 a0 b1?`},
		{"none of an acknowledged party comes", "lost 2", `a joins 1 a0; admin 2 reserve b1 c2; a sees 2; end 2 a0`},
		{"one comes one version later", "lost, phantom",
			`a joins 1 a0; admin 2 reserve b1 c2; a sees 2 +b1?; a sees 3 +c2?; end 3 a0 b1? c2?`},
		{"two on one seat", "seat_clash", `a joins 1 a0; admin 2 reserve b1 c1; a sees 2 +b1? +c1?; end 2 a0 b1? c1?`},
		{"a seat for which nobody asked", "phantom", `a joins 1 a0; a sees 2 +b1?; end 2 a0 b1?`},
		{"one of an acknowledged group stays", "lost",
			`a joins 1 a0; admin 2 reserve b1 c2; a sees 2 +b1? +c2?; admin 3 release b1 c2; a sees 3 -b; end 3 a0 c2?`},
		{"a seat is reserved twice, and lapses twice", "",
			`b joins 1 b0; admin 2 reserve a1; a lapses 2; admin 4 reserve a1; a lapses 4; b sees 1-4 +a1? -a +a1?; b gets 5 b0; end 5 b0`},
	})
}

func TestGroups_Moves(t *testing.T) {
	tell(t, []story{
		{"all move", "",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2; b c lost moved r2;
				r2: b arrives; r2: b gets 1 b0 c1; end 4 a0 and r2: 1 b0 c1`},
		{"nobody sees it", "", `three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; end 4 a0 and r2: 1 b0 c1`},
		{"the outcome is unknown", "",
			`three; r2: admin unsure in b0 c1 from r; admin unsure out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2;
				end 4 a0 and r2: 1 b0 c1`},
		{"the list of the other room lacks who was moved", "lost, diverged",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2; b c lost moved r2;
				r2: b arrives; r2: b gets 1 c1; end 4 a0 and r2: 1 b0 c1`},
		{"one does not come", "lost",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2; b c lost moved r2;
				end 4 a0 and r2: 1 c1`},
		{"one does not leave", "lost",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2; end 4 a0 c2 and r2: 1 b0 c1`},
		{"one does not leave, and the outcome is unknown", "torn",
			`three; r2: admin unsure in b0 c1 from r; admin unsure out b0 c0 to r2; a sees 4 -b:moved:r2; end 4 a0 c2 and r2: 1 b0 c1`},
		{"a refused move takes place in part", "phantom, torn",
			`three; admin refused out b0 c0 to r2; a sees 4 -b:moved:r2; end 4 a0 c2`},
		{"into another room than the request says", "phantom, diverged, torn",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r3 -c:moved:r2; end 4 a0 and r2: 1 b0 c1`},
		{"moved back, and kicked before the room is known", "",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2; b c lost moved r2;
				admin 5 in b1 from r2; b arrives; a sees 5 +b1?; admin 6 kick b; a sees 6 -b:kicked; b lost kicked; end 6 a0 and r2: 1 b0 c1`},
		{"one is told of another room", "phantom",
			`three; r2: admin 1 in b0 c1 from r; admin 4 out b0 c0 to r2; a sees 4 -b:moved:r2 -c:moved:r2; b lost moved r3;
				end 4 a0 and r2: 1 b0 c1`},
	})
}

func TestRemovals_EachKind(t *testing.T) {
	tell(t, []story{
		{"a kick", "", `three; admin 4 kick b; a c see 4 -b:kicked; b lost kicked; b joins 5 a0 b1 c2; a c see 5 +b1; end 5 a0 b1 c2`},
		{"a kick that only the kicked one sees", "", `b joins 1 b0; admin 2 kick b; b sees 2 -b:kicked; b lost kicked; end 2`},
		{"another connection takes the seat over, and is kicked", "", `three; b lost replaced; admin 4 kick b; a c see 4 -b:kicked; end 4 a0 c2`},
		{"a take-over does not excuse that the user is gone", "lost, version_gap", `three; b lost replaced; end 4 a0 c2`},
		{"a kick that nobody sees", "", `b joins 1 b0; admin 2 kick b; b lost kicked; end 2`},
		{"a kick with an unknown outcome", "", `three; admin unsure kick b; a c see 4 -b:kicked; b lost kicked; end 4 a0 c2`},
		{"an acknowledged kick that did not happen", "lost", `three; admin 4 kick b; a b c see 4; end 4 a0 b1 c2`},
		{"an acknowledged kick that the end does not show", "lost", `b joins 1 b0; admin 2 kick b; end 2 b0`},
		{"a kick that nobody asked for", "phantom", `three; a c see 4 -b:kicked; b lost kicked; end 4 a0 c2`},
		{"a kick of another", "lost, phantom", `three; admin 4 kick b; a b see 4 -c:kicked; c lost kicked; end 4 a0 b1`},
		{"a kick that others see as a leave", "diverged", `three; admin 4 kick b; a c see 4 -b:left; end 4 a0 c2`},
		{"one is told that it was kicked, and was not", "phantom", `three; b lost kicked; a c see 4 -b:left; end 4 a0 c2`},
		{"one is told so after an older kick", "phantom",
			`three; admin 4 kick b; a c see 4 -b:kicked; b lost kicked; b joins 5 a0 b1 c2; a c see 5 +b1; b lost kicked;
				a c see 6 -b:left; end 6 a0 c2`},
		{"kicked and closed in one event", "",
			`two; admin 3 kick b; b sees 3 -b:kicked; b lost kicked; admin 4 reserve b1; admin 5 close; a sees 2-5 -b:kicked +b1? -a:closed -b:closed;
				a lost closed; rules c; end 5`},
		{"kicked twice in one event, for one request", "phantom",
			`two; admin 3 kick b; admin 4 reserve b1; a sees 2-5 -b:kicked +b1? -b:kicked; end 5 a0`},
		{"kicked out of a membership that it has not heard of", "",
			`two; r2: admin 1 in b0 from r; admin 3 kick b; a sees 3 -b:kicked; b lost kicked; b unsure join; a sees 4 +b1; admin 5 out b0 to r2;
				a sees 5 -b:moved:r2; b lost moved r2; end 5 a0 and r2: 1 b0`},
		{"one is told another reason", "diverged", `three; admin 4 kick b; a b c see 4 -b:kicked; b lost closed; end 4 a0 c2`},
		{"one is told what nobody else saw, and finds the room closed when it is back", "",
			`three; admin 4 kick b; b lost kicked; b joins 5 a0 b1 c2; a gets 5 a0 b1 c2; c gets 5 a0 b1 c2; admin 6 close;
				a b c see 6 -a:closed -b:closed -c:closed; a b c lost closed; end 6`},
		{"one is told an error instead", "diverged", `three; admin 4 kick b; a c see 4 -b:kicked; b lost room_full; end 4 a0 c2`},
		{"one whose leave was refused is told later", "",
			`three; admin 4 kick b; a c see 4 -b:kicked; b gone; b lost kicked; end 4 a0 c2`},
		{"one is not told", "diverged", `three; admin 4 kick b; a b c see 4 -b:kicked; a b c see 5; end 5 a0 c2`},
		{"an event after lost", "version_gap", `three; admin 4 kick b; a c see 4 -b:kicked; b lost kicked; a b c see 5; end 5 a0 c2`},
	})
}

func TestRemovals_Close(t *testing.T) {
	tell(t, []story{
		{"everybody leaves", "", `three; admin 4 close; a b c see 4 -a:closed -b:closed -c:closed; a b c lost closed; end 4`},
		{"and nobody sees it", "", `three; admin 4 close; a b c lost closed; end 4`},
		{"with an unknown outcome, and nobody sees it", "", `three; admin unsure close; a b c lost closed; end 4`},
		{"one stays", "lost", `three; admin 4 close; a b c see 4 -a:closed -b:closed; end 4 c2`},
		{"one stays, and nobody sees it", "lost", `three; admin 4 close; end 4 c2`},
		{"and nobody asked for it", "phantom", `a joins 1 a0; a sees 2 -a:closed; a lost closed; end 2`},
	})
}

func TestRemovals_Bans(t *testing.T) {
	tell(t, []story{
		{"the ban is over", "",
			`now 1000; two; admin 3 kick b until 1000; a sees 3 -b:kicked; b lost kicked; b joins 4 a0 b1; a sees 4 +b1; end 4 a0 b1`},
		{"the ban was lifted", "",
			`now 1000; two; admin 3 kick b until 2000; a sees 3 -b:kicked; b lost kicked; admin 4 unban b; a sees 4; b joins 5 a0 b1;
				a sees 5 +b1; end 5 a0 b1`},
		{"the banned one is not there", "",
			`now 1000; a joins 1 a0; admin 2 kick b until 2000; a sees 2; admin 3 kick b until 3000; end 3 a0`},
		{"the banned one stays", "lost", `now 1000; two; admin 3 kick b until 2000; a b see 3; end 3 a0 b1`},
		{"the banned one stays, and nobody sees it", "lost", `now 1000; b joins 1 b1; admin 2 kick b until 2000; end 2 b1`},
		{"the ban is not over", "intruder",
			`now 1000; two; admin 3 kick b until 1001; a sees 3 -b:kicked; b lost kicked; b joins 4 a0 b1; a sees 4 +b1; end 4 a0 b1`},
		{"without a clock", "intruder",
			`two; admin 3 kick b until 1; a sees 3 -b:kicked; b lost kicked; b joins 4 a0 b1; a sees 4 +b1; end 4 a0 b1`},
	})
}

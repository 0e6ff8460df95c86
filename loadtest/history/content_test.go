package history

import "testing"

func TestState_Members(t *testing.T) {
	tell(t, []story{
		{"ready, data, and gone with the seat", "",
			`two; b does 3/2 ready; a b see 3 *b1!; b does 4/2 member 7; a b see 4 *b1!=7; a lists 4 a0 b1!=7; b leaves 5/1; a sees 5 -b;
				b joins 6 a0 b1; a sees 6 +b1; end 6 a0 b1`},
		{"ready at versions that nobody saw", "", `two; b does 3/2 ready; b does 4/2 member 7; end 4 a0 b1!=7`},
		{"ready with an unknown outcome", "", `two; b unsure ready; end 3 a0 b1!`},
		{"in one event with others", "", `two; b does 3/2 ready; a b see 2-5 *b1! +c2 *b1!=7; end 5 a0 b1!=7 c2`},
		{"set as expected, after having been there before", "",
			`two; b does 3/2 member 7 if 0; a b see 3 *b1=7; b leaves 4/1; a sees 4 -b; b joins 5 a0 b1; a sees 5 +b1; b does 6/2 ready;
				a b see 6 *b1!; b does 7/2 member 7 if 0; a b see 7 *b1!=7; end 7 a0 b1!=7`},
		{"set although it is not as expected", "conflict",
			`two; b does 3/2 member 7; a b see 3 *b1=7; b does 4/2 member 8 if 2; a b see 4 *b1=8; end 4 a0 b1=8`},
		{"refused although only the rest of the state has changed", "conflict",
			`two; b does 3/2 ready; a b see 3 *b1!; b refused 3 member 8 if 2; end 3 a0 b1!`},
		{"ready is acknowledged and not there", "lost", `two; b does 3/2 ready; a b see 3; end 3 a0 b1`},
		{"a list says ready of who is not", "diverged", `two; a lists 2 a0 b1!; end 2 a0 b1`},
		{"the end lacks the data of a member", "diverged", `two; b does 3/2 member 7; a b see 3 *b1=7; end 3 a0 b1`},
		{"a state outlives its member", "diverged 2",
			`two; b does 3/2 ready; a b see 3 *b1!; b leaves 4/1; b joins 5 a0 b1!; a sees 3-5 -b +b1; end 5 a0 b1!`}, // to a, and by the history
		{"a state of who is not there", "phantom", `two; c does 3/2 ready; a b see 3 *c2!; end 3 a0 b1`},
		{"a state that nobody asked for", "phantom", `two; a b see 3 *b1!; end 3 a0 b1!`},
		{"a state on another seat", "diverged", `two; b does 3/2 ready; a b see 3 *b0!; end 3 a0 b1!`},
	})
}

func TestData_Expected(t *testing.T) {
	tell(t, []story{
		{"one sets it, and another one sees it", "", `two; a does 3/2 set 7; a b see 3 #a:7; data 7; b lists 3 a0 b1; end 3 a0 b1`},
		{"set to what it is, which is no version", "", `two; a does 3/2 set 7; a b see 3 #a:7; b does 3/2 set 7; data 7; end 3 a0 b1`},
		{"nobody sees the versions", "", `two; a does 3/2 set 7; b does 4/2 set 8 if 3; data 8; end 4 a0 b1`},
		{"the outcome is unknown", "", `two; a unsure set 7; data 7; end 3 a0 b1`},
		{"two at an unseen version", "", `two; a does 3/2 set 7; b does 3/2 set 8; data 7; end 3 a0 b1`},
		{"nobody set it", "diverged", `two; data 7; end 2 a0 b1`},
		{"an acknowledged value is gone at the end", "diverged", `two; a does 3/2 set 7; a b see 3 #a:7; end 3 a0 b1`},
		{"an acknowledged value is not in its version", "lost, phantom", `two; a does 3/2 set 7; a b see 3 #a:8; data 8; end 3 a0 b1`},
		{"an acknowledged value is nowhere", "lost", `two; a does 3/2 set 7; a b see 3; end 3 a0 b1`},
		{"a list has older data", "diverged", `two; a does 3/2 set 7; a sees 3 #a:7; b lists 3 a0 b1; data 7; end 3 a0 b1`},
		{"a refused value is there", "phantom",
			`two; a does 3/2 set 7; a b see 3 #a:7; b refused 4=8 set 8 if 2; a b see 4 #b:8; data 8; end 4 a0 b1`},
		{"a list has older data, with nobody there before", "diverged 2",
			`a joins 1 a0; a does 2/1 set 7; a sees 2 #a:7; a leaves 3/0; b joins 4 b0; data 7; b gets 5 b0; x unsure away; end 5 b0`}, // it is gone, and there again
	})
}

func TestData_CompareAndSet(t *testing.T) {
	tell(t, []story{
		{"one wins", "", `race; b does 4/2 set 4 if 3; a b see 4 #b:4; a refused 4=4 set 5 if 3; data 4; end 4 a0 b1`},
		{"other versions do not matter", "",
			`race; a does 4/2 ready; a b see 4 *a0!; a does 5/2 unready; a b see 5 *a0; b does 6/2 set 6 if 3; a b see 6 #b:6; data 6;
				end 6 a0 b1`},
		{"another epoch is a conflict", "", `race; a refused 3=3 set 5 if 3 of e0; data 3; end 3 a0 b1`},
		{"the last two at one version", "", `race; a does 4/2 set 4 if 3; b does 4/2 set 5; a b see 4 #a:4 #b:5; data 5; end 4 a0 b1`},
		{"an unknown outcome is in the way", "", `race; b unsure set 4 if 3; a refused 4=4 set 5 if 3; data 4; end 4 a0 b1`},
		{"it replaces what another one has set", "conflict",
			`race; b does 4/2 set 4 if 3; a b see 4 #b:4; a does 5/2 set 5 if 3; a b see 5 #a:5; data 5; end 5 a0 b1`},
		{"it replaces what another one has set, unseen", "conflict",
			`race; b does 4/2 set 4 if 3; a does 5/2 set 5 if 3; data 5; end 5 a0 b1`},
		{"two win at one version", "conflict",
			`race; b does 4/2 set 4 if 3; a does 4/2 set 5 if 3; a b see 4 #b:4 #a:5; data 5; end 4 a0 b1`},
		{"two win at one version that nobody saw", "conflict 2",
			`race; b does 4/2 set 4 if 3; a does 4/2 set 5 if 3; data 5; end 4 a0 b1`}, // nobody knows which is wrong
		{"it wins in another epoch", "conflict", `race; a does 4/2 set 5 if 3 of e0; a b see 4 #a:5; data 5; end 4 a0 b1`},
		{"it is refused without a reason", "conflict", `race; a b see 4; a refused 4=3 set 5 if 3; data 3; end 4 a0 b1`},
		{"it is refused, and told other data", "diverged", `race; a refused 3=2 set 5 if 2; data 3; end 3 a0 b1`},
		{"it is refused within an event over several versions", "",
			`race; a refused 4=4 set 5 if 3; b does 4/2 set 4 if 3; b does 5/2 ready; a b see 3-5 #b:4 *b1!; data 4; end 5 a0 b1!`},
		{"it is refused there, and told data of none of them", "diverged",
			`race; a refused 4=5 set 5 if 3; b does 4/2 set 4 if 3; b does 5/2 ready; a b see 3-5 #b:4 *b1!; data 4; end 5 a0 b1!`},
		{"it is refused where nobody saw who came last", "",
			`race; a does 4/2 set 7; b does 4/2 set 8; a refused 4=7 set 5 if 3; b does 5/2 set 6; data 6; end 5 a0 b1`},
		{"it is refused there, and told data of neither", "diverged",
			`race; a does 4/2 set 7; b does 4/2 set 8; a refused 4=9 set 5 if 3; b does 5/2 set 6; data 6; end 5 a0 b1`},
		{"it is refused because of what was there before the run", "", `data 7; start 5 a0; a joins 5 a0; a refused 5=7 set 8 if 3; end 5 a0`},
		{"set to what was there before the run", "", `data 7; start 5 a0; a joins 5 a0; a does 5/1 set 7; end 5 a0`},
	})
}

func TestSettings_Followed(t *testing.T) {
	tell(t, []story{
		{"more seats", "", `rules 2; a joins 1 a0; admin 2 configure 3; a sees 2 %3; a sees 3 +b1 +c2; rules 3; end 3 a0 b1 c2`},
		{"more seats, and they are taken, in one event", "", `rules 2; a joins 1 a0; a sees 1-3 %3 +b1 +c2; rules 3; end 3 a0 b1 c2`},
		{"they bind before the capacity of the run", "", `capacity 1; rules 2; a joins 1 a0; a sees 2 +b1; end 2 a0 b1`},
		{"set to what they are", "", `rules 2; a joins 1 a0; admin 1 configure 2; end 1 a0`},
		{"closed, and opened again", "", `rules 2; a joins 1 a0; a sees 2 %2c; a sees 3 %2; a sees 4 +b1; end 4 a0 b1`},
		{"nobody sees them change", "", `rules 2; a joins 1 a0; admin 2 configure 1; rules 1; end 2 a0`},
		{"they change with an unknown outcome", "", `rules 2; a joins 1 a0; admin unsure configure 1; rules 1; end 2 a0`},
		{"too many for the settings in force", "oversold, seat_clash",
			`rules 2; a joins 1 a0; a sees 2 %1; a sees 3 +b0; rules 1; end 3 a0 b0`},
		{"a seat that there is not", "oversold", `rules 2; a joins 1 a0; a sees 2 +b2; end 2 a0 b2`},
		{"settings for fewer than there are", "oversold 2",
			`rules 2; a joins 1 a0; a sees 2 +b1; admin 3 configure 1; a sees 3 %1; rules 1; end 3 a0 b1`}, // too many, and b on a seat that there is not
		{"settings with fewer seats than somebody sits on", "oversold",
			`rules 9; a joins 1 a5; admin 2 configure 5; a sees 2 %5; rules 5; end 2 a5`},
		{"a list has too many for its settings", "oversold 2", `rules 1; a lists 1 b0 c1`},
		{"too many at the end", "oversold", `x unsure join; y unsure join; rules 1; end 2 x0 y1`},
		{"somebody comes into a closed room", "intruder", `rules 2; a joins 1 a0; a sees 2 %2c; a sees 3 +b1; rules 2c; end 3 a0 b1`},
		{"acknowledged settings are not in their version", "lost", `rules 2; a joins 1 a0; admin 2 configure 3; a sees 2; end 2 a0`},
		{"acknowledged settings are not what others see", "lost",
			`rules 2; a joins 1 a0; admin 2 configure 3; a sees 2 %4; rules 4; end 2 a0`},
		{"settings that nobody saw change", "diverged", `rules 2; a joins 1 a0; a sees 2; rules 3; end 2 a0`},
		{"a list has other settings than an event", "diverged", `rules 2; a joins 1 a0; a sees 2 %3; b lists 2 a0; rules 3; end 2 a0`},
		{"set at another version than expected", "conflict",
			`rules 2; a joins 1 a0; a sees 2; admin 3 configure 3 if 1; a sees 3 %3; rules 3; end 3 a0`},
		{"two set them at once, both as expected", "conflict",
			`rules 2; a joins 1 a0; admin 2 configure 3 if 1; admin 2 configure 4 if 1; a sees 2 %3 %4; rules 4; end 2 a0`},
		{"refused at the version that was expected", "conflict", `rules 2; a joins 1 a0; admin conflict 1 configure 3 if 1; end 1 a0`},
		{"refused at another version", "", `rules 2; a joins 1 a0; a sees 2; admin conflict 2 configure 3 if 1; end 2 a0`},
	})
}

func TestSpeech_Messages(t *testing.T) {
	tell(t, []story{
		{"all get it", "", `three; a does 4/3 say hi; a b c see 4 "a:hi; end 4 a0 b1 c2`},
		{"all get two, one of them in one event", "",
			`three; a does 4/3 say hi; b does 5/3 say hi; a b see 4 "a:hi; a b see 5 "b:hi; c sees 3-5 "a:hi "b:hi; end 5 a0 b1 c2`},
		{"twice the same", "", `three; a does 4/3 say hi; a does 4/3 say hi; a b c see 4 "a:hi "a:hi; end 4 a0 b1 c2`},
		{"nobody is there to get it", "", `three; a does 4/3 say hi; end 4 a0 b1 c2`},
		{"with an unknown outcome", "", `three; a unsure say hi; a b c see 4 "a:hi; end 4 a0 b1 c2`},
		{"a snapshot stands for it", "", `three; a does 4/3 say hi; a sees 4 "a:hi; b gets 4 a0 b1 c2; end 4 a0 b1 c2`},
		{"one gets no event of it", "diverged", `three; a does 4/3 say hi; a b see 4 "a:hi; c sees 4; end 4 a0 b1 c2`},
		{"nobody gets it", "lost", `three; a does 4/3 say hi; a b c see 4; end 4 a0 b1 c2`},
		{"nobody gets it in a merged event", "lost", `three; a does 4/3 say hi; a b c see 3-5; end 5 a0 b1 c2`},
		{"all get other words", "lost, phantom", `three; a does 4/3 say hi; a b c see 4 "a:ho; end 4 a0 b1 c2`},
		{"all get it twice", "duplicate", `three; a does 4/3 say hi; a b c see 4 "a:hi "a:hi; end 4 a0 b1 c2`},
		{"all get it again, a version later", "phantom",
			`three; a does 4/3 say hi; a b c see 4 "a:hi; a b c see 5 "a:hi; end 5 a0 b1 c2`},
		{"in another order", "diverged",
			`three; a does 4/3 say hi; b does 4/3 say hi; a b see 4 "a:hi "b:hi; c sees 4 "b:hi "a:hi; end 4 a0 b1 c2`},
		{"to one", "", `three; a does 4/3 say psst>b; a b see 4 "a:psst>b; c sees 4; end 4 a0 b1 c2`},
		{"to one who gets a snapshot", "",
			`three; a does 4/3 say psst>b; a sees 4 "a:psst>b; b gets 4 a0 b1 c2; b a see 5; end 5 a0 b1 c2`},
		{"to one, in a merged event", "",
			`three; a does 4/3 say psst>b; a sees 4 "a:psst>b; a sees 5; b sees 3-5 "a:psst>b; end 5 a0 b1 c2`},
		{"with an unknown outcome, to one", "", `three; a unsure say psst>b; a b see 4 "a:psst>b; end 4 a0 b1 c2`},
		{"the one does not get it", "lost", `three; a does 4/3 say psst>b; a sees 4 "a:psst>b; b sees 4; end 4 a0 b1 c2`},
		{"the sender does not get it", "lost", `three; a does 4/3 say psst>b; b sees 4 "a:psst>b; a sees 4; end 4 a0 b1 c2`},
		{"the one does not get it in a merged event", "lost", `three; a does 4/3 say psst>b; b sees 3-5; end 5 a0 b1 c2`},
		{"the one gets it twice", "duplicate", `three; a does 4/3 say psst>b; b sees 4 "a:psst>b "a:psst>b; end 4 a0 b1 c2`},
		{"the one gets it a version later", "lost, diverged",
			`three; a does 4/3 say psst>b; b sees 4; b sees 5 "a:psst>b; end 5 a0 b1 c2`},
		{"another one gets it", "diverged", `three; a does 4/3 say psst>b; a b c see 4 "a:psst>b; end 4 a0 b1 c2`},
		{"all get it", "lost 2, phantom", `three; a does 4/3 say psst>b; a b c see 4 "a:psst; end 4 a0 b1 c2`},
	})
}

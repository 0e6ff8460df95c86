package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// notFound marks what no audit can find. The documentation says why.
const notFound Rule = ""

// Ways to tamper with a room, and what is found.
func TestTampering_EachWay(t *testing.T) {
	type tampering struct {
		damage func(*world, *final)
		want   Rule
	}
	check := func(name string, w *world, test tampering) {
		t.Helper()
		f := w.final()
		if found := judge(t, w.commits, f); len(found) > 0 {
			t.Fatalf("before %s:\n%s", name, text(found))
		}
		test.damage(w, f)
		found := judgeWith(w.commits, f, func(o *oracle, _ int, err error) { o.find(RuleEntry, o.version, Side{}, Side{"", err.Error()}) })
		if test.want == notFound && len(found) > 0 || test.want != notFound && !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == test.want }) {
			t.Errorf("%s: want %q, found:\n%s", name, test.want, text(found))
		}
	}
	last := len(story().commits)
	join := func(user string, at int64) object {
		return object{"type": typeJoin, "user": user, "seat": 3, "session": "s", "at": at}
	}
	for name, test := range map[string]tampering{
		// Entries.
		"dropped in the middle": {func(w *world, _ *final) { w.commits = slices.Delete(w.commits, 6, 7) }, RuleGap},
		"the last dropped":      {func(w *world, _ *final) { w.commits = w.commits[:last-1] }, RuleGap},
		"the last dropped, and Meta set back": {func(w *world, f *final) {
			w.commits = w.commits[:last-1]
			f.meta["version"] = fmt.Sprint(last - 1)
		}, RulePosition},
		"doubled": {func(w *world, _ *final) { w.commits = slices.Insert(w.commits, 6, w.commits[6]) }, RuleTwice},
		"swapped": {func(w *world, _ *final) { w.commits[6], w.commits[7] = w.commits[7], w.commits[6] }, RuleGap},
		"replaced by one of another room": {func(w *world, _ *final) {
			other := newWorld()
			other.epoch = "f1"
			for range 13 {
				other.commit("n1", object{"type": typeMessage, "user": "", "seat": 0, "text": "hello"})
			}
			w.commits[12] = other.commits[12]
		}, RuleChain},
		"replaced by one of the same epoch": {rewrittenOne(13, field(13, "text", "ho")), RuleChain},
		"inserted": {func(w *world, _ *final) {
			e, _ := marked(object{"epoch": "e1", "version": 13, "prev": markIn(w.commits[11]), "node": "n1", "changes": []object{}})
			w.commits = slices.Insert(w.commits, 13, e)
		}, RuleTwice},
		"appended, without Meta": {func(w *world, _ *final) { w.commit("n1") }, RulePosition},
		"spaces":                 {func(w *world, _ *final) { w.commits[12] += " " }, RuleChanged},
		"a further field":        {func(w *world, _ *final) { edit(w, 13, func(e object, _ []any) { e["more"] = 1 }) }, RuleChanged},
		"no mark":                {func(w *world, _ *final) { edit(w, 13, func(e object, _ []any) { delete(e, "mark") }) }, RuleEntry},
		"no JSON":                {func(w *world, _ *final) { w.commits[12] = "{" }, RuleEntry},
		"a name twice":           {func(w *world, _ *final) { w.commits[12] = strings.Replace(w.commits[12], `{`, `{"node":"n1",`, 1) }, RuleEntry},
		"a change added":         {extra(13, object{"type": typeMessage, "text": "and"}), RuleChanged},
		"a change dropped":       {func(w *world, _ *final) { edit(w, 10, func(e object, c []any) { e["changes"] = c[:1] }) }, RuleChanged},
		"changes swapped": {func(w *world, _ *final) {
			edit(w, 10, func(e object, c []any) { e["changes"] = []any{c[1], c[0]} })
		}, RuleChanged},
		"a receiver of a message added":   {field(13, "to", []string{"b", "c", "d"}), RuleChanged},
		"a receiver of a message dropped": {field(13, "to", []string{"b"}), RuleChanged},
		"the receivers dropped":           {func(w *world, _ *final) { edit(w, 13, func(_ object, c []any) { delete(c[0].(object), "to") }) }, RuleChanged},
		"data that is overwritten later":  {field(7, "data", 1), RuleChanged},
		"the epoch of all entries": {func(w *world, f *final) {
			for i := range w.commits {
				w.commits[i] = strings.Replace(w.commits[i], `"e1"`, `"e2"`, 1)
			}
			f.meta["epoch"] = "e2"
		}, RuleChanged},
		"trimmed, and the first that is left changed": {func(w *world, f *final) {
			w.commits = w.commits[12:]
			w.commits[0] = strings.Replace(w.commits[0], "hi", "ho", 1)
		}, RuleChanged},
		"a new epoch that builds on another version": {func(w *world, f *final) {
			w.begin("e2", 15)
			w.mark = markIn(w.commits[13])
			appended()(w, f)
			f.meta["epoch"] = "e2"
		}, RuleChain},
		"a new epoch far ahead": {func(w *world, f *final) {
			w.epoch, w.version = "e2", 40
			appended()(w, f)
			f.meta["epoch"] = "e2"
		}, RuleEpoch},
		"a version 1 that builds on another": {func(w *world, f *final) {
			w.epoch, w.version = "e2", 0
			appended()(w, f)
			f.meta["epoch"] = "e2"
		}, RuleChain},

		// All marks computed anew, but what it says cannot be, or is not what Redis has.
		"rewritten: a join on a seat that is taken":      {rewritten(9, field(9, "seat", 0)), RuleSeat},
		"rewritten: a join beyond the seats":             {rewritten(9, field(9, "seat", 9)), RuleCapacity},
		"rewritten: a leave of a stranger":               {rewritten(12, field(12, "user", "zoe")), RuleAbsent},
		"rewritten: a leave from another seat":           {rewritten(12, field(12, "seat", 1)), RuleMoved},
		"rewritten: a session that had not spoken":       {rewritten(5, field(5, "old", "s9")), RuleSession},
		"rewritten: another session":                     {rewritten(5, field(5, "session", "s9")), RuleMember},
		"rewritten: the node of a session":               {rewritten(5, func(w *world, _ *final) { edit(w, 5, func(e object, _ []any) { e["node"] = "n3" }) }), RuleMember},
		"rewritten: when somebody joined":                {rewritten(2, field(2, "at", 7)), RuleMember},
		"rewritten: who is ready":                        {rewritten(6, field(6, "ready", false)), RuleMember},
		"rewritten: a member's data":                     {rewritten(6, field(6, "data", 1)), RuleMember},
		"rewritten: the last data":                       {rewritten(8, field(8, "data", 1)), RuleData},
		"rewritten: the settings":                        {rewritten(19, field(19, "settings", object{"capacity": 4, "closed": true})), RuleSettings},
		"rewritten: why somebody was kicked":             {rewritten(10, field(10, "text", "for fun")), RuleGone},
		"rewritten: a kick that is a leave":              {rewritten(10, field(10, "reason", "left")), RuleGone},
		"rewritten: where somebody was moved":            {rewritten(12, field(12, "target", "44")), RuleGone},
		"rewritten: a ban that is lifted later":          {rewritten(16, field(16, "until", 9)), RuleBans},
		"rewritten: a join of who is banned":             {appended(join("d", 1_000_001)), RuleBanned},
		"rewritten: a join into the closed room":         {appended(join("z", 2_000_000)), RuleClosed},
		"rewritten: who was kicked is back by a failure": {appended(func() object { j := join("e", 2_000_000); j["again"] = true; return j }()), RuleClosed},
		"rewritten: no failure":                          {rewritten(20, func(w *world, _ *final) { edit(w, 20, func(_ object, c []any) { delete(c[0].(object), "again") }) }), RuleClosed},
		"rewritten: of an unknown kind":                  {rewritten(13, field(13, "type", "explode")), RuleEntry},
		"rewritten: an entry dropped":                    {rewritten(13, func(w *world, _ *final) { w.commits = slices.Delete(w.commits, 12, 13) }), RuleGap},

		// Meta.
		"Meta: epoch":                          {meta("epoch", "e2"), RulePosition},
		"Meta: no epoch":                       {without("epoch"), RulePosition},
		"Meta: an earlier version":             {meta("version", "29"), RulePosition},
		"Meta: a later version":                {meta("version", "31"), RuleGap},
		"Meta: no version":                     {without("version"), RulePosition},
		"Meta: mark":                           {meta("mark", "ntK55oh9oynnN2y-"), RulePosition},
		"Meta: no mark":                        {without("mark"), RulePosition},
		"Meta: members":                        {meta("members", "4"), RuleCount},
		"Meta: no members":                     {without("members"), RuleCount},
		"Meta: capacity":                       {inMeta("settings", "4", "5"), RuleSettings},
		"Meta: closed":                         {inMeta("settings", "true", "false"), RuleSettings},
		"Meta: who may set data":               {inMeta("settings", "admins", "members"), RuleSettings},
		"Meta: kept":                           {inMeta("settings", "{", `{"keep":true,`), RuleSettings},
		"Meta: no settings":                    {without("settings"), RuleSettings},
		"Meta: data":                           {inMeta("data", "9", "90"), RuleData},
		"Meta: when data was set":              {inMeta("data", `"version":8`, `"version":7`), RuleData},
		"Meta: no data":                        {without("data"), RuleData},
		"Meta: a timer is due at another time": {inMeta("timers", "9000", "9001"), RuleTimers},
		"Meta: a timer that has fired":         {inMeta("timers", `"turn":`, `"over":`), RuleTimers},
		"Meta: timers of another version":      {inMeta("timers", `"version":26}`, `"version":25}`), RuleTimers},
		"Meta: no timers":                      {without("timers"), RuleTimers},
		"a seat that somebody keeps":           {appended(object{"type": typeSeat, "user": "a", "seat": 2}), RuleSeat},
		"a seat for who is not there":          {appended(object{"type": typeSeat, "user": "z", "seat": 3}), RuleAbsent},
		"a timer fires twice":                  {appended(object{"type": typeTimer, "user": "", "seat": 0, "timer": object{"name": "old", "was": 6000}}), RuleTimer},
		"a timer fires that was set anew":      {appended(object{"type": typeTimer, "user": "", "seat": 0, "timer": object{"name": "turn", "was": 6000}}), RuleTimer},
		"Meta: the end of a ban":               {inMeta("bans", "2000000", "2000001"), RuleBans},
		"Meta: a ban that was lifted":          {inMeta("bans", "{", `{"x":1000005,`), RuleBans},
		"Meta: another ban":                    {inMeta("bans", "{", `{"a":7,`), RuleBans},
		"Meta: no bans":                        {without("bans"), RuleBans},
		"Meta: why who was taken out":          {inMeta("gone", "kicked", "moved"), RuleGone},
		"Meta: when":                           {inMeta("gone", `"version":10`, `"version":9`), RuleGone},
		"Meta: what was said":                  {inMeta("gone", "enough", "for fun"), RuleGone},
		"Meta: where to":                       {inMeta("gone", "43", "44"), RuleGone},
		"Meta: another one taken out":          {inMeta("gone", "{", `{"a":{"version":3,"reason":"kicked"},`), RuleGone},
		"Meta: closed for good":                {inMeta("gone", "{", `{"":{"version":19,"reason":"closed"},`), RuleGone},
		"Meta: nobody taken out":               {without("gone"), RuleGone},
		"Meta: who was taken out is no JSON":   {meta("gone", "{"), RuleGone},
		"Meta and Users set back to version 13": {func(w *world, f *final) {
			f.meta["version"], f.meta["mark"] = "13", markIn(w.commits[12])
		}, RulePosition},
		"the room deleted": {func(_ *world, f *final) { f.users, f.meta = nil, nil }, RulePosition},
		"Meta deleted":     {func(_ *world, f *final) { f.meta = nil }, RulePosition},
		"Users deleted":    {func(_ *world, f *final) { f.users = nil }, RuleMember},

		// Users.
		"Users: seat":          {user("a", `"seat":0`, `"seat":3`), RuleMember},
		"Users: session":       {user("b", `"s6"`, `"s7"`), RuleMember},
		"Users: node":          {user("b", `"n2"`, `"n1"`), RuleMember},
		"Users: at":            {user("b", `"at":1000000`, `"at":1000001`), RuleMember},
		"Users: away":          {user("a", `"session":"`, `"session":"~`), RuleMember},
		"Users: ready":         {user("b", `"ready":true`, `"ready":false`), RuleMember},
		"Users: data":          {user("b", `"x":1`, `"x":2`), RuleMember},
		"Users: when data set": {user("b", `"version":6`, `"version":5`), RuleMember},
		"Users: no member":     {user("b", `{`, `{{`), RuleMember},
		"Users: dropped":       {func(_ *world, f *final) { delete(f.users, "b"); f.meta["members"] = "2" }, RuleMember},
		"Users: added":         {func(_ *world, f *final) { f.users["z"] = `{"seat":3}`; f.meta["members"] = "4" }, RuleMember},
		"Users: renamed":       {func(_ *world, f *final) { f.users["z"] = f.users["b"]; delete(f.users, "b") }, RuleMember},

		// Expiry.
		"the journal expires": {expires(0, 1000), RuleExpiry},
		"Users expires":       {expires(1, 1000), RuleExpiry},
		"Meta expires":        {expires(2, 1000), RuleExpiry},

		// What cannot be found.
		"the beginning trimmed":                       {func(w *world, _ *final) { w.commits = w.commits[5:] }, notFound},
		"all trimmed but the end":                     {func(w *world, _ *final) { w.commits = w.commits[last-1:] }, notFound},
		"rewritten: what was said":                    {rewritten(13, field(13, "text", "ho")), notFound},
		"rewritten: who heard it":                     {rewritten(13, field(13, "to", []string{"b"})), notFound},
		"rewritten: who wrote":                        {rewritten(13, func(w *world, _ *final) { edit(w, 13, func(e object, _ []any) { e["node"] = "n3" }) }), notFound},
		"rewritten: data that is overwritten later":   {rewritten(7, field(7, "data", 1)), notFound},
		"rewritten: a reason that nothing depends on": {rewritten(18, field(18, "reason", "timeout")), notFound},
		"rewritten: the whole journal":                {rewritten(1, field(13, "text", "ho")), notFound},
		"a commit forged whole":                       {appended(object{"type": typeMessage, "user": "a", "seat": 0, "text": "!"}), notFound},
		"a new epoch forged whole": {func(w *world, f *final) {
			w.begin("e2", uint64(last))
			appended()(w, f)
			f.meta["epoch"] = "e2"
		}, notFound},
		"Journal, Users and Meta of version 29 put back": {func(w *world, f *final) {
			w.commits = w.commits[:last-1]
			f.meta["version"], f.meta["mark"] = "29", markIn(w.commits[last-2])
		}, notFound},
		"Meta: by:<node>":            {meta("by:n1", "x"), notFound},
		"Meta: moved":                {meta("moved", "x"), notFound},
		"Meta: incarnation":          {meta("incarnation", "x"), notFound},
		"Meta: a field of nobody's":  {meta("other", "x"), notFound},
		"Users: a field of nobody's": {user("b", `{`, `{"other":1,`), notFound},
	} {
		check(name, story(), test)
	}
	for name, test := range map[string]tampering{
		"a kept room: the journal expires": {expires(0, 1000), RuleExpiry},
		"a kept room: Meta expires":        {expires(2, 1000), RuleExpiry},
		"a kept room: deleted":             {func(_ *world, f *final) { f.users, f.meta = nil, nil }, RulePosition},
		"a kept room: not kept":            {inMeta("settings", "true", "false"), RuleSettings},
	} {
		check(name, kept(), test)
	}
	for name, test := range map[string]tampering{
		"an empty room: the journal stays":   {expires(0, -1), RuleExpiry},
		"an empty room: Meta stays":          {expires(2, -1), RuleExpiry},
		"an empty room: open again":          {without("gone"), RuleGone},
		"an empty room: Meta goes later":     {expires(2, 1e12), notFound},
		"an empty room: deleted before then": {func(_ *world, f *final) { f.users, f.meta = nil, nil }, notFound},
	} {
		check(name, empty(), test)
	}
}

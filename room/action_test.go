package room

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Join is the action of most commits: to check it must not cost a copy of it.
func TestCheck_CopiesNothing(t *testing.T) {
	for _, a := range []Action{
		Join{User: "张三", Session: "s"}, Leave{User: "a", Session: "s"}, Ready{User: "a", Session: "s"},
		Keep{User: "a", Session: "s"}, Detach{User: "a", Session: "s"},
	} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Check(a, Rules{}) }); n != 0 {
			t.Errorf("%T: %v allocations", a, n)
		}
	}
}

// Actions come out of Check in their normal form, those too in which only a name is not.
func TestCheck_NormalForm(t *testing.T) {
	const typed, normal = "u\u0308", "ü"
	seat := new(3)
	for _, tt := range []struct{ is, want Action }{
		{Join{User: typed, Session: "s", Seat: seat, Existing: true}, Join{User: normal, Session: "s", Seat: seat, Existing: true}},
		{Leave{User: typed, Session: "s", Reason: ReasonTimeout}, Leave{User: normal, Session: "s", Reason: ReasonTimeout}},
		{Keep{User: typed, Session: "s"}, Keep{User: normal, Session: "s"}},
		{Detach{User: typed, Session: "s"}, Detach{User: normal, Session: "s"}},
		{Ready{User: typed, Session: "s", Value: true}, Ready{User: normal, Session: "s", Value: true}},
		{SetData{User: typed, Session: "s", Data: " 1"}, SetData{User: normal, Session: "s", Data: "1"}},
		{SetMemberData{User: typed, Session: "s"}, SetMemberData{User: normal, Session: "s"}},
		{Kick{User: typed, Until: 5}, Kick{User: normal, Until: 5}},
		{Unban{User: typed}, Unban{User: normal}},
	} {
		if got, err := Check(tt.is, Rules{}); err != nil || got != tt.want {
			t.Errorf("%T: %+v, %v", tt.is, got, err)
		}
	}
	said, err := Check(Say{User: typed, Session: "s", Text: "x", To: []string{typed}}, Rules{})
	if say, _ := said.(Say); err != nil || say.User != normal || !slices.Equal(say.To, []string{normal}) {
		t.Errorf("%+v, %v", said, err)
	}
	dealt, err := Check(Deal{User: typed, Session: "s", Hands: []Hand{{typed, " 1"}}}, Rules{})
	if deal, _ := dealt.(Deal); err != nil || deal.User != normal || !slices.Equal(deal.Hands, []Hand{{normal, "1"}}) {
		t.Errorf("%+v, %v", dealt, err)
	}
	for _, group := range []Action{Reserve{Session: "s", Users: []string{typed}}, Release{Users: []string{typed}}} {
		checked, err := Check(group, Rules{})
		if err != nil {
			t.Fatal(err)
		}
		users := append(asReserve(checked).Users, asRelease(checked).Users...)
		if !slices.Equal(users, []string{normal}) {
			t.Errorf("%+v", checked)
		}
	}
}

func asReserve(a Action) Reserve { r, _ := a.(Reserve); return r }
func asRelease(a Action) Release { r, _ := a.(Release); return r }

// A kind that is added has its row in kinds, with what follows from it; and an action is named where a reader of the
// documentation looks for it.
func TestAction_EachHasAKind(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, actions := "", 0
	named, of, updates := map[string]Kind{}, map[string]string{}, map[string]bool{} // by constant; by action; constants
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "about" && n.Recv != nil {
					of[n.Recv.List[0].Type.(*ast.Ident).Name] = n.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.Ident).Name
				}
			case *ast.ValueSpec:
				if kind, is := n.Type.(*ast.Ident); is && kind.Name == "Kind" && len(n.Values) == 1 {
					docs += n.Doc.Text() + n.Comment.Text()
					named[n.Names[0].Name] = Kind(strings.Trim(n.Values[0].(*ast.BasicLit).Value, `"`))
				}
			case *ast.CompositeLit:
				if is, _ := n.Type.(*ast.Ident); is == nil || is.Name != "Update" {
					break
				}
				for _, field := range n.Elts {
					if pair, is := field.(*ast.KeyValueExpr); is && pair.Key.(*ast.Ident).Name == "Type" {
						if name, is := pair.Value.(*ast.Ident); is {
							updates[name.Name] = true
						}
					}
				}
			}
			return true
		})
	}
	ofNodes := []Kind{kindUpkeep}
	for constant, kind := range named {
		if !slices.Contains(ofNodes, kind) && kind.row().Kind != kind {
			t.Errorf("kinds has no row of %s", constant)
		}
	}
	for action, constant := range of {
		actions++
		if !strings.Contains(docs, "["+action+"]") {
			t.Errorf("the comment of %s does not name %s", constant, action)
		}
		if kind := named[constant]; !slices.Contains(ofNodes, kind) && !slices.Contains(ActionKinds, kind) {
			t.Errorf("%s does %s, which is not counted", action, constant)
		}
	}
	for constant := range updates {
		kind, is := named[constant]
		told := len((&Commit{Updates: []Update{{Type: kind}}}).Event("r").Changes) > 0
		if is && told != slices.Contains(ChangeKinds, kind) {
			t.Errorf("events tell of %s: %t, which its row contradicts", constant, told)
		}
	}
	if actions < 17 || len(updates) < 14 {
		t.Errorf("there are only %d actions, which make the updates %v", actions, updates)
	}
}

// What shares a commit with the end of an epoch may expect that epoch: so that is a commit of its own.
func TestSubject_Renew(t *testing.T) {
	if _, alone := Subject(Upkeep{Renew: "e"}); !alone {
		t.Error("other actions share its commit")
	}
}

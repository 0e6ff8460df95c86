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
	for _, tt := range []struct{ is, want Action }{
		{Join{User: typed, Session: "s", Seat: At(3), Existing: true}, Join{User: normal, Session: "s", Seat: At(3), Existing: true}},
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

// An action that is added is named where a reader of the documentation looks for actions.
func TestAction_EachIsDocumented(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, actions, kinds, listed := "", map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, is := d.(*ast.FuncDecl); is && fn.Name.Name == "subject" {
				actions[fn.Recv.List[0].Type.(*ast.Ident).Name] = true
			} else if is && fn.Name.Name == "kind" && fn.Recv != nil {
				kinds[fn.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.Ident).Name] = true
			}
			if g, is := d.(*ast.GenDecl); is && g.Tok == token.VAR && g.Specs[0].(*ast.ValueSpec).Names[0].Name == "ActionKinds" {
				for _, kind := range g.Specs[0].(*ast.ValueSpec).Values[0].(*ast.CompositeLit).Elts {
					listed[kind.(*ast.Ident).Name] = true
				}
			}
			if g, is := d.(*ast.GenDecl); is && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == "Action" {
				doc = g.Doc.Text()
			}
		}
	}
	if len(actions) < 17 {
		t.Fatalf("there are only the actions %v", actions)
	}
	for name := range kinds {
		if ast.IsExported(name) && !listed[name] {
			t.Errorf("ActionKinds, which the metrics count, has no %s", name)
		}
	}
	for name := range actions {
		if !strings.Contains(doc, "["+name+"]") {
			t.Errorf("the documentation of Action does not name %s", name)
		}
	}
}

// What shares a commit with the end of an epoch may expect that epoch: so that is a commit of its own.
func TestSubject_Renew(t *testing.T) {
	if _, alone := Subject(Renew{Epoch: "e"}); !alone {
		t.Error("other actions share its commit")
	}
}

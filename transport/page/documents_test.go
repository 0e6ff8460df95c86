package page

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// union returns the literals of a type in roomd.d.ts.
func union(t *testing.T, source, name string) (words []string) {
	t.Helper()
	_, body, found := strings.Cut(source, "\nexport type "+name+" =")
	body, _, _ = strings.Cut(body, "\n\n")
	redistest.FatalIf(t, !found, "roomd.d.ts has no type %s", name)
	for _, word := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(body, -1) {
		words = append(words, word[1])
	}
	return words
}

func sameWords(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	redistest.ErrorIf(t, !slices.Equal(got, want), "%s: %v, want %v", what, got, want)
}

// The types of roomd.d.ts have the protocol's words, and those of the client are in roomd.js.
func TestTypes_HaveTheProtocolsWords(t *testing.T) {
	t.Parallel()
	types, err := library.ReadFile("roomd.d.ts")
	redistest.OK(t, err)
	script, err := library.ReadFile("roomd.js")
	redistest.OK(t, err)
	sameWords(t, "ServerCode", union(t, string(types), "ServerCode"), protocol.Codes())
	sameWords(t, "Reason", union(t, string(types), "Reason"), protocol.Reasons())
	_, change, _ := strings.Cut(string(types), "\nexport type Change<")
	var kinds []string
	for _, line := range regexp.MustCompile(`readonly type: ([^;]+);`).FindAllStringSubmatch(change, -1) {
		for kind := range strings.SplitSeq(line[1], " | ") {
			kinds = append(kinds, strings.Trim(kind, `"`))
		}
	}
	sameWords(t, "Change", kinds, append(protocol.Changes(), protocol.EventSnapshot, protocol.EventLost))
	own := union(t, string(types), "ClientCode")
	for _, code := range own {
		redistest.ErrorIf(t, !strings.Contains(string(script), `"`+code+`"`), "roomd.js never says %q", code)
	}
	for _, used := range regexp.MustCompile(`new RoomdError\("(\w+)"`).FindAllStringSubmatch(string(script), -1) {
		redistest.ErrorIf(t, !slices.Contains(own, used[1]) && !slices.Contains(protocol.Codes(), used[1]),
			"roomd.js says %q, which no type has", used[1])
	}
}

// The first page says what this is, and its links lead to the documents.
func TestFirstPage_LeadsToTheDocuments(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	source := string(h.files["/"].content)
	if !strings.Contains(source, "roomd decides who sits in which room of a game") {
		t.Error("the page does not say what roomd is")
	}
	links := map[string]bool{}
	for _, link := range regexp.MustCompile(`href="(/[^"]*)"`).FindAllStringSubmatch(source, -1) {
		links[link[1]] = true
		if !h.Serves(link[1]) && link[1] != "/api/openapi.yaml" { // the API has that
			t.Errorf("nothing is at %s", link[1])
		}
	}
	for _, document := range []string{"/docs/browser.md", "/docs/protocol.md", "/docs/asyncapi.yaml", "/api/openapi.yaml", "/roomd.js", "/roomd.d.ts"} {
		redistest.ErrorIf(t, !links[document], "the page does not lead to %s", document)
	}
}

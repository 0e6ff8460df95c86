package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestLabels_NormalForm(t *testing.T) {
	var a, b Labels
	for text, into := range map[string]*Labels{`{"b":"2", "a":"1"}`: &a, `{"a":"1","b":"2"}`: &b} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if a != b || a != `{"a":"1","b":"2"}` || MakeLabels(a.Map()) != a {
		t.Errorf("%s and %s", a, b)
	}
	for others, want := range map[Labels]bool{"": true, a: true, `{"b":"2"}`: true, `{"b":"1"}`: false, `{"c":"2"}`: false} {
		if a.Include(others) != want || Labels("").Include(others) != (others == "") {
			t.Errorf("%s include %s: %v", a, others, !want)
		}
	}
	if text, _ := json.Marshal(Settings{}.Labels); string(text) != "{}" {
		t.Errorf("none is %s", text)
	}
	if err := json.Unmarshal([]byte(`{"a":1}`), &a); err == nil {
		t.Error("a number is no value")
	}
}

func TestLabels_Limits(t *testing.T) {
	many := make(map[string]string)
	for i := range MaxLabels + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for field, bad := range map[string]map[string]string{
		"labels":   many,
		"labels.a": {"a": ""},
		"labels.b": {"b": strings.Repeat("x", maxLabelValue+1)},
		"labels.c": {"c": "ü"},
		"labels ":  {strings.Repeat("x", maxLabelName+1): "x"},
		"labels  ": {"a b": "x"},
	} {
		_, err := Check(Configure{Settings: Settings{Labels: MakeLabels(bad)}}, Rules{})
		if invalid, is := errors.AsType[*InvalidError](err); !is || invalid.Field != strings.TrimSpace(field) {
			t.Errorf("%v: %v, want %s", bad, err, field)
		}
		s := Settings{Labels: MakeLabels(bad)}
		if s.Adapt(); s.Labels != "" {
			t.Errorf("%v are used although they cannot be", bad)
		}
	}
	if err := MakeLabels(map[string]string{strings.Repeat("x", maxLabelName): strings.Repeat("y", maxLabelValue)}).Check(); err != nil {
		t.Error(err)
	}
}

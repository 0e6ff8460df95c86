package room

import (
	"errors"
	"strings"
	"testing"
)

// Data has only numbers that every JSON reader holds alike.
func TestNumbersInData(t *testing.T) {
	for text, strange := range map[string]bool{
		"0": false, "-0": false, "-1.5e-7": false, "0.1": false, "0.12345678901234567890123": false, "0e999999": false, "0.000e-999999": false,
		"9007199254740991": false, "-9007199254740993": true, "9007199254740992": false, "9007199254740993": true, "123456789012345678": true,
		"18446744073709551616": false, "18446744073709552000": false, // 2 to the 64th, exactly and as JavaScript writes it
		"18446744073709551615": true, "1e308": false, "1.7976931348623157e308": false, "1e309": true, "-1e999999": true, "1E+400": true,
		"5e-324": false, "1e-999999": true, "-0.0001e-400": true, strings.Repeat("9", 400): true,
	} {
		for _, form := range []string{"%", " [ 1, % ] ", `{"a":{"b":[true,%]}}`, `["\\\"",%,"x"]`} {
			_, err := parseData("data", strings.ReplaceAll(form, "%", text), 1000)
			invalid, ok := errors.AsType[*InvalidError](err)
			if strange != (err != nil) || strange && (!ok || invalid.Field != "data" || !strings.Contains(err.Error(), "the number "+text[:min(32, len(text))]+",")) {
				t.Errorf("%s: %v", strings.ReplaceAll(form, "%", text), err)
			}
		}
	}
	if _, err := parseData("data", `{"1e999999":"a 1e999999 \" 1e999999"}`, 1000); err != nil {
		t.Errorf("in a text: %v", err)
	}
}

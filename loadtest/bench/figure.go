package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Figure is a number that may be unknown: NaN, and null in JSON.
type Figure float64

// per returns x for each of n, unknown if there are none.
func per(x, n float64) Figure {
	if n == 0 {
		return Figure(math.NaN())
	}
	return Figure(x / n)
}

// IsKnown reports whether there is a number.
func (f Figure) IsKnown() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Text returns the number in one of fmt's formats, or a dash.
func (f Figure) Text(format string) string {
	if !f.IsKnown() {
		return "–"
	}
	return fmt.Sprintf(format, float64(f))
}

// MarshalJSON writes four significant digits, which is more than a run is worth.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.IsKnown() {
		return []byte("null"), nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 4, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(rounded)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

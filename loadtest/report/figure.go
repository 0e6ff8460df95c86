package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Figure is a number that may be unknown: NaN, and null in JSON.
type Figure float64

// Per returns x divided by n, unknown if n is zero.
func Per(x, n float64) Figure {
	if n == 0 {
		return Figure(math.NaN())
	}
	return Figure(x / n)
}

// Median returns the median, the mean of the two middle values, or NaN, which is an unknown [Figure], for an
// empty list.
func Median[F ~float64](list []F) F {
	if len(list) == 0 {
		return F(math.NaN())
	}
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// IsKnown reports whether f is a number.
func (f Figure) IsKnown() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Text returns the number in a format of fmt, or a dash.
func (f Figure) Text(format string) string {
	if !f.IsKnown() {
		return "–"
	}
	return fmt.Sprintf(format, float64(f))
}

// MarshalJSON writes four significant digits, because a run is not more precise.
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

// UnmarshalJSON reads the output of MarshalJSON.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

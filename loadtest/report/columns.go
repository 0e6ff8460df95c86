package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Columns writes rows of cells below each other: the first column to the left, all
// others to the right. Rows may differ in length.
func Columns(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, text := range row {
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", widths[i], text)
			} else {
				fmt.Fprintf(&b, "  %*s", widths[i], text)
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package report

import (
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"
)

// Table has rows of figures, for a terminal and for a page.
type Table struct {
	ID       string // address on the page; may be empty
	Title    string // may be empty
	Subtitle string
	Columns  []Column // the first one names the rows
	Rows     []Row
	Notes    []string // remarks about the figures
	About    string   // message of the figures, for the page
	Plain    bool     // the page explains the columns elsewhere; see Meanings
}

// Column is a column of a table.
type Column struct {
	Head  string
	Group string // head above neighbouring columns of the same group
	About string // meaning, for the page
	Words bool   // its cells are words, aligned to the left on the page
}

// Row is a row of a table; its first cell is its name.
type Row struct {
	Cells  []string
	Strong bool // emphasized
}

// Text returns the title, aligned columns and the notes, for a terminal.
func (t *Table) Text() string {
	head := make([]string, 0, len(t.Columns))
	for i, c := range t.Columns {
		if t.opens(i) {
			head = append(head, "| "+c.Group+":")
		}
		head = append(head, c.Head)
	}
	lines := [][]string{head}
	for _, row := range t.Rows {
		var line []string
		for i, text := range row.Cells {
			if t.opens(i) {
				line = append(line, "")
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	text := aligned(lines)
	if t.Title != "" {
		text = t.Title + ": " + t.Subtitle + "\n" + text
	}
	for _, note := range t.Notes {
		text += "  " + note + "\n"
	}
	return text
}

// opens reports whether a column is the first of its group.
func (t *Table) opens(i int) bool {
	return i < len(t.Columns) && t.Columns[i].Group != "" && (i == 0 || t.Columns[i-1].Group != t.Columns[i].Group)
}

// HTML returns the table for a page, or nothing if it has no rows.
func (t *Table) HTML() template.HTML {
	if len(t.Rows) == 0 {
		return ""
	}
	return part("table", t)
}

// News returns the meanings of columns whose heads are not in known, for a terminal, and adds those heads.
func (t *Table) News(known map[string]bool) string {
	var news Facts
	for _, c := range t.Columns {
		if c.About != "" && !known[c.Head] {
			known[c.Head] = true
			news.Rows = append(news.Rows, Fact{Name: "  " + c.Head, Text: c.About})
		}
	}
	return news.Text(0)
}

// Meanings returns a list of the columns' meanings.
func (t *Table) Meanings() template.HTML {
	var list []Fact
	for _, c := range t.Columns {
		if c.About != "" {
			name := c.Head
			if c.Group != "" {
				name = c.Group + ": " + name
			}
			list = append(list, Fact{Name: name, Text: c.About})
		}
	}
	return meanings("What the columns mean", list, false)
}

// Meanings returns a list of words and their meanings, or nothing for an empty list.
func Meanings(title string, list []Fact) template.HTML { return meanings(title, list, true) }

// meanings returns the list, which readers can fold; open means unfolded.
func meanings(title string, list []Fact, open bool) template.HTML {
	if len(list) == 0 {
		return ""
	}
	return part("meanings", struct {
		Title string
		List  []Fact
		Open  bool
	}{title, list, open})
}

// span is a head above neighbouring columns.
type span struct {
	Name string
	Span int
}

// Groups returns the groups of columns, and the columns between them; nothing if no column is in a group.
func (t *Table) Groups() (list []span) {
	grouped := false
	for i, c := range t.Columns {
		if i == 0 || c.Group != t.Columns[i-1].Group {
			list = append(list, span{Name: c.Group})
		}
		list[len(list)-1].Span++
		grouped = grouped || c.Group != ""
	}
	if !grouped {
		return nil
	}
	return list
}

// aligned returns aligned columns: the first one to the left, all others to the right. Rows may differ in length.
func aligned(rows [][]string) string {
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
	return b.String()
}

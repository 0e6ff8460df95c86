package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is rows of figures, for a terminal and for a page.
type Table struct {
	ID       string // its address on the page; may be empty
	Title    string // may be empty
	Subtitle string
	Columns  []Column // the first one has the names of the rows
	Rows     []Row
	Notes    []string // what the figures do not show
	About    string   // what the figures say, for the page
	Plain    bool     // the page explains the columns elsewhere; see Meanings
}

// Column is a column of a table.
type Column struct {
	Head  string
	Group string // above this column and its neighbours of the same group
	About string // what it means, for the page
	Words bool   // its cells are words; they begin at the left of the page's column
}

// Row is a row of a table, its name first.
type Row struct {
	Cells  []string
	Strong bool // the row that readers look for
	// Good and Bad are the cell that is judged; 0 is none, as the name is none.
	Good, Bad int
}

// WriteText writes the table for a terminal: columns below each other, and the notes.
func (t *Table) WriteText(w io.Writer) error {
	var lines [][]string
	head := make([]string, 0, len(t.Columns))
	for i, c := range t.Columns {
		if t.opens(i) {
			head = append(head, "| "+c.Group+":")
		}
		head = append(head, c.Head)
	}
	lines = append(lines, head)
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
	if t.Title != "" {
		if _, err := fmt.Fprintf(w, "%s: %s\n", t.Title, t.Subtitle); err != nil {
			return err
		}
	}
	if err := Columns(w, lines); err != nil {
		return err
	}
	for _, note := range t.Notes {
		if _, err := fmt.Fprintf(w, "  %s\n", note); err != nil {
			return err
		}
	}
	return nil
}

// opens reports whether a group begins with a column.
func (t *Table) opens(i int) bool {
	return i < len(t.Columns) && t.Columns[i].Group != "" && (i == 0 || t.Columns[i-1].Group != t.Columns[i].Group)
}

// HTML returns the table for a page, or nothing if it has no rows.
func (t *Table) HTML() template.HTML {
	if len(t.Rows) == 0 {
		return ""
	}
	return part("table", tableView{t})
}

// WriteMeanings writes what the columns mean that are not known yet, by their heads.
func (t *Table) WriteMeanings(w io.Writer, known map[string]bool) error {
	var news Facts
	for _, c := range t.Columns {
		if c.About != "" && !known[c.Head] {
			known[c.Head] = true
			news.Rows = append(news.Rows, Fact{Name: "  " + c.Head, Text: c.About})
		}
	}
	return news.WriteText(w, 0)
}

// Meanings returns a list of what the columns mean.
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

// Meanings returns a list of what words mean. It returns nothing for an empty list.
func Meanings(title string, list []Fact) template.HTML { return meanings(title, list, true) }

// meanings returns the list, which readers can fold; open is what they see first.
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

// tableView is what the template needs of a table.
type tableView struct{ *Table }

type span struct {
	Name string
	Span int
}

type line struct {
	Name   string
	Strong bool
	Cells  []cell
}

type cell struct{ Text, Class string }

// Label names the table for who cannot see it.
func (v tableView) Label() string {
	return cmp.Or(v.Title, v.Subtitle, "Table")
}

// HasGroups reports whether any column is in a group.
func (v tableView) HasGroups() bool {
	for i := range v.Columns {
		if v.opens(i) {
			return true
		}
	}
	return false
}

// Groups returns the groups, and the columns between them, as an own line of heads.
func (v tableView) Groups() (list []span) {
	for i, c := range v.Columns {
		if i == 0 || c.Group != v.Columns[i-1].Group {
			list = append(list, span{Name: c.Group})
		}
		list[len(list)-1].Span++
	}
	return list
}

// Lines returns the rows with the classes of their cells.
func (v tableView) Lines() (list []line) {
	for _, row := range v.Rows {
		l := line{Name: row.Cells[0], Strong: row.Strong}
		for i, text := range row.Cells[1:] {
			c := cell{Text: text}
			switch i + 1 {
			case row.Good:
				c.Class = "good"
			case row.Bad:
				c.Class = "bad"
			default:
				if i+1 < len(v.Columns) && v.Columns[i+1].Words {
					c.Class = "words"
				}
			}
			l.Cells = append(l.Cells, c)
		}
		list = append(list, l)
	}
	return list
}

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

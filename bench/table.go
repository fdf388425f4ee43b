package main

// table.go prints what came out, as a table of Markdown that is readable as it is.

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// table is what one measurement comes to.
type table struct {
	title   string
	columns []string
	rows    [][]string // a cell for each column
	notes   []string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the table with columns as wide as what is in them; all but the first are aligned to the right.
func (t *table) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "### %s\n\n", t.title)
	widths := make([]int, len(t.columns))
	for _, row := range append([][]string{t.columns}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell += pad
			} else {
				cell = pad + cell
			}
			fmt.Fprintf(&text, "| %s ", cell)
		}
		text.WriteString("|\n")
	}
	line(t.columns)
	for i, width := range widths {
		if i == 0 {
			fmt.Fprintf(&text, "|%s", strings.Repeat("-", width+2))
		} else {
			fmt.Fprintf(&text, "|%s:", strings.Repeat("-", width+1))
		}
	}
	text.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	for _, note := range t.notes {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	return text.String()
}

// What cells are made of.

func ratio(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }

func nanoseconds(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d.Nanoseconds())/1e3) }

// short returns d with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

func of(n, total int) string { return fmt.Sprintf("%d of %d", n, total) }

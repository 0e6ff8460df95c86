package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one way to break the code.
type mutant struct {
	name     string // what is wrong
	file     string
	old, new string // old occurs once in file
	tests    string // package whose tests have to notice
	run      string // its tests, as in go test -run; "" for all
}

// lists are the files with all mutants.
const lists = ".ci/mutants/list/*.txt"

// readLists returns the mutants of all lists, in order.
func readLists() (all []mutant, err error) {
	names, err := filepath.Glob(lists)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := parseList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = slices.Concat(all, found)
	}
	return all, err
}

// parseList parses mutants, each written as
//
//	# what is wrong
//	file: package [tests, as in go test -run]
//	-lines of the file, from any column to any column
//	+lines that replace them, or none
func parseList(text string) (all []mutant, err error) {
	var old, with []string
	end := func() {
		if n := len(all); n > 0 {
			all[n-1].old, all[n-1].new = strings.Join(old, "\n"), strings.Join(with, "\n")
		}
		old, with = nil, nil
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "":
		case line[0] == '#':
			end()
			all = append(all, mutant{name: strings.TrimSpace(line[1:])})
		case line[0] == '-':
			old = append(old, line[1:])
		case line[0] == '+':
			with = append(with, line[1:])
		default:
			file, tests, ok := strings.Cut(line, ": ")
			if !ok || len(all) == 0 || all[len(all)-1].file != "" {
				return nil, fmt.Errorf("line %d is no part of a mutant: %s", n, line)
			}
			m := &all[len(all)-1]
			m.file = file
			m.tests, m.run, _ = strings.Cut(tests, " ")
		}
	}
	end()
	return all, lines.Err()
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// outputFlags say where a command writes its report.
type outputFlags struct {
	JSON string `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the table then goes to standard error."`
	HTML string `name:"html" placeholder:"FILE" help:"Write the report as a web page."`
}

// table returns the stream for the readable report.
func (o outputFlags) table(std streams) io.Writer {
	if o.JSON == "-" {
		return std.stderr
	}
	return std.stdout
}

// print prints a report, and writes its files. It returns errNotConsistent unless good.
func (o outputFlags) print(std streams, good bool, report interface {
	WriteTable(io.Writer) error
	WriteHTML(io.Writer) error
}) error {
	if err := report.WriteTable(o.table(std)); err != nil {
		return err
	}
	if err := o.write(report, std.stdout); err != nil || good {
		return err
	}
	return errNotConsistent
}

// write writes a report as JSON and as a page; see writeFile.
func (o outputFlags) write(report interface{ WriteHTML(io.Writer) error }, stdout io.Writer) error {
	if err := writeJSON(o.JSON, stdout, report); err != nil {
		return err
	}
	if err := writeFile(o.HTML, stdout, report.WriteHTML); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return nil
}

// writeJSON writes a report as JSON; see writeFile.
func writeJSON(name string, stdout io.Writer, report any) error {
	err := writeFile(name, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(report)
	})
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return nil
}

// writeFile writes to the named file, to stdout if the name is -, and nowhere if it is empty.
func writeFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(stdout)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

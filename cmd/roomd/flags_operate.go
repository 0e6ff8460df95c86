package main

// operateFlags say what an operator sees of a node.
type operateFlags struct {
	LogLevel  string `default:"info" enum:"trace,debug,info,warn,error" placeholder:"info" help:"One of ${enum}."`
	LogFormat string `default:"console" enum:"console,json" placeholder:"console" help:"One of ${enum}."`
}

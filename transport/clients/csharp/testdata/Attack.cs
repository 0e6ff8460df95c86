// Attack ADDRESS: what a hostile player, a program with faults and a country with a decimal comma do to Roomd.cs.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Roomd;

static class Attack {
    static void Check(bool ok, string what) {
        if (!ok) throw new Exception(what);
    }

    static void Main(string[] args) {
        CultureInfo.CurrentCulture = CultureInfo.DefaultThreadCurrentCulture = new CultureInfo("de-DE");
        Check(1.5.ToString() == "1,5", "this is no decimal comma");
        Numbers();
        Texts();
        Threads(args[0], null);
        Threads(args[0], new Engine());
        Faults(args[0]);
        Waiting(args[0]);
        Console.WriteLine("ok");
    }

    static void Numbers() {
        foreach (var number in new[] { 0, 0.1, -1.5, 5e-324, 1.7976931348623157e308, 1e21, 0.84551240822557006 })
            Check((double)Json.Parse(Json.Write(number)) == number, "another number: " + Json.Write(number));
        Check(Json.Write(new object[] { 1.5f, 1.5m, 7L, (byte)7 }) == "[1.5,1.5,7,7]", "numbers of other types");
        foreach (var bad in new object[] { double.NaN, float.PositiveInfinity, new object(), DateTime.Now }) {
            try {
                Json.Write(bad);
                Check(false, "JSON has a " + bad);
            } catch (RoomdException error) when (error.Code == "bad_request") { }
        }
    }

    static void Texts() {
        foreach (var text in new[] { "", "\0\u001f\"\\/\b\f\n\r\t", "张三", "😀", "\ud800", "\u2028" })
            Check((string)Json.Parse(Json.Write(text)) == text, "another text: " + Json.Write(text));
        var open = string.Concat(Enumerable.Repeat("[{\"a\":", 100000)); // more than the stack of a thread has room for
        Json.Parse(open + "1" + string.Concat(Enumerable.Repeat("}]", 100000)));
        var wrong = "|[|{|'|'\\|'\\u12|'\\x'|[1,]|{'a':1,}|{'a'}|{a:1}|[1}|{]|1 2|nul|1e999|--1|+|NaN|1,5|]|[1 2]";
        foreach (var text in wrong.Replace('\'', '"').Split('|')) {
            try {
                Json.Parse(text);
                Check(false, "this is no JSON: " + text);
            } catch (FormatException) { }
        }
    }

    static void Until(Client client, Func<bool> done, string what) {
        for (var end = Client.Now + 20000; !done(); Thread.Sleep(2)) {
            Check(Client.Now < end, "waits for " + what);
            client.Pump();
        }
    }

    static T Get<T>(Client client, Task<T> task, string what) {
        Until(client, () => task.IsCompleted, what);
        return task.GetAwaiter().GetResult();
    }

    sealed class Engine : SynchronizationContext {
        public override void Post(SendOrPostCallback call, object state) => Check(false, "the engine has to go on");
    }

    // Threads awaits with and without an engine's context. All goes on in Pump.
    static void Threads(string address, SynchronizationContext engine) {
        SynchronizationContext.SetSynchronizationContext(engine);
        Func<Task<int>> token = async () => {
            await Task.Delay(1);
            return Thread.CurrentThread.ManagedThreadId;
        };
        var asked = 0;
        var client = new Client(new Options {
            Addresses = new[] { address }, User = "eve",
            Token = async () => {
                asked = await token();
                return null;
            },
        });
        Func<Task<int>> play = async () => {
            var room = await client.Join("threads");
            await room.Update(old => 1);
            await client.Ask("users", "threads");
            Check(SynchronizationContext.Current == engine, "another context");
            return Thread.CurrentThread.ManagedThreadId;
        };
        var here = Thread.CurrentThread.ManagedThreadId;
        Check(Get(client, play(), "the game") == here && asked == here, "another thread");
        client.Dispose();

        Func<Task<string>> fails = () => throw new Exception("no login");
        client = new Client(new Options { Addresses = new[] { address }, Token = fails });
        Until(client, () => client.State == State.Lost, "the end");
        Check(client.Connected.Exception.InnerException.Message == "client_closed: no token: no login", "another end");
        SynchronizationContext.SetSynchronizationContext(null);
    }

    // Faults has callbacks throw, on data that are deep, large, and no ASCII. Everything goes on.
    static void Faults(string address) {
        var client = new Client(new Options { Addresses = new[] { address }, User = "Jörg 😀" });
        var room = Get(client, client.Join("faults"), "the seat");
        Check(room.Users[0].Text("user") == "Jörg 😀", "another user: " + room.Users[0]);
        Check(room.Snapshot()["seat"] is double, "the seat has another type");
        var thrown = 0;
        client.Changed += (where, change) => throw new InvalidOperationException((++thrown).ToString());
        var text = new string('é', 3000);
        var sent = Enumerable.Range(0, 10).Select(n => room.Set(Json.Of(("n", n + 0.5), ("text", text)))).ToArray();
        for (var end = Client.Now + 20000; !sent.All(task => task.IsCompleted) || thrown < 10; Thread.Sleep(2)) {
            Check(Client.Now < end, "waits for ten answers");
            try {
                client.Pump();
            } catch (InvalidOperationException) { }
        }
        Task.WaitAll(sent);
        Check(((Json)room.Data).Number("n") == 9.5, "other data: " + room.Data);
        var circle = new List<object>();
        circle.Add(circle);
        Check(room.Set(circle).Exception.InnerException is RoomdException, "a circle is written");
        var tooLong = room.Set(new string('x', 20000)).Exception.InnerException as RoomdException;
        Check(tooLong?.Code == "too_large", "a long request is sent");
        Check(client.State == State.Connected, "the client is " + client.State);
        Check(client.Close().Wait(5000), "the goodbye lasts");
    }

    // Waiting closes a client in a callback while requests wait. Each ends.
    static void Waiting(string address) {
        var client = new Client(new Options { Addresses = new[] { address }, User = "eve" });
        var room = Get(client, client.Join("waiting"), "the seat");
        var asked = new List<Task>();
        client.Changed += (where, change) => {
            for (var n = 0; n < 100; n++) asked.Add(room.Say("hello"));
            client.Dispose();
            asked.Add(client.Join("waiting"));
        };
        var first = room.Ready(true);
        Until(client, () => asked.Count > 0, "a change");
        client.Pump();
        Check(first.IsCompleted && asked.All(task => task.IsFaulted), "a task goes on");
        Check(client.State == State.Lost && room.Error.Code == "client_closed", "the client is " + client.State);
    }
}

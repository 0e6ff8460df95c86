// Roomd.cs under test by the conformance kit: README.md of transport/scenarios has the lines that it reads and writes.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Roomd;

static class Conform {
    static readonly Dictionary<string, Player> players = new Dictionary<string, Player>();

    static void Main() {
        var lines = new ConcurrentQueue<string>();
        var input = Task.Run(() => {
            for (string line; (line = Console.ReadLine()) != null;) lines.Enqueue(line);
        });
        while (!input.IsCompleted || !lines.IsEmpty) {
            while (lines.TryDequeue(out var line)) Answer((Json)Json.Parse(line));
            foreach (var player in players.Values) player.Pump();
            Thread.Sleep(2);
        }
        Task.WaitAll(players.Values.Select(player => player.Close()).ToArray());
    }

    static async void Answer(Json asked) {
        var answer = Json.Of(("id", asked["id"]));
        try {
            var name = asked.Text("client");
            if (!players.ContainsKey(name)) players[name] = new Player();
            answer = answer.With("result", await players[name].Do(asked));
        } catch (Exception error) {
            var code = (error as RoomdException)?.Code ?? error.ToString();
            answer = answer.With("error", code).With("message", error.Message);
        }
        Console.WriteLine(answer);
    }
}

/// <summary>Player is what one client can be asked for.</summary>
sealed class Player {
    readonly Dictionary<string, Room> rooms = new Dictionary<string, Room>(); // also those that have ended
    readonly Dictionary<string, Changes> iterations = new Dictionary<string, Changes>();
    readonly List<Func<bool>> waiting = new List<Func<bool>>(); // for something to read
    Client client;
    Lobby lobby;
    bool told; // the lobby's error

    public void Pump() {
        client?.Pump();
        foreach (var wait in waiting.ToList()) if (wait()) waiting.Remove(wait);
    }

    public Task Close() => client?.Close() ?? Task.CompletedTask;

    /// <summary>At keeps a room, so that it can be asked for its end.</summary>
    Room At(Json asked) {
        var id = asked.Text("room");
        if (client.Rooms.ContainsKey(id)) rooms[id] = client.Rooms[id];
        return rooms[id];
    }

    /// <summary>Until waits until read gets something.</summary>
    Task<object> Until(Func<object> read) {
        var done = new TaskCompletionSource<object>();
        Func<bool> wait = () => {
            try {
                var got = read();
                return got != null && done.TrySetResult(got);
            } catch (RoomdException error) {
                return done.TrySetException(error);
            }
        };
        if (!wait()) waiting.Add(wait);
        return done.Task;
    }

    static int? Whole(object number) => (int?)(number as double?);

    public async Task<object> Do(Json asked) {
        string id = asked.Text("room"), user = asked.Text("user"), name = asked.Text("name");
        var options = asked.Object("options") ?? Json.Of();
        int? seat = Whole(options["seat"]), history = Whole(options["history"]);
        switch (asked.Text("do")) {
            case "connect": Connect(options); await client.Connected; return null;
            case "join": rooms[id] = await client.Join(id, seat, history); return null;
            case "watch": rooms[id] = await client.Watch(id, history); return null;
            case "leave": await At(asked).Leave(); return null;
            case "unwatch": await At(asked).Unwatch(); return null;
            case "users": return Listed(await client.Ask("users", id));
            case "ready": await At(asked).Ready(asked.Is("value")); return null;
            case "set": await At(asked).Set(asked["data"]); return null;
            case "setMember": await At(asked).Set(asked["data"], "member"); return null;
            case "setPrivate": await At(asked).Set(asked["data"], "private"); return null;
            case "setPrivateOf":
                await client.Ask("set", id, ("scope", "private"), ("user", user), ("data", asked["data"]));
                return null;
            case "timer": await At(asked).Timer(name, asked["in"] as double?, asked["then"]); return null;
            case "swap": await client.Ask("swap", id, ("users", new[] { user, asked["other"] })); return null;
            case "match": await client.Match(asked.Object("options")["labels"], asked.Object("options")["settings"], id); return null;
            case "shuffle": await client.Ask("shuffle", id); return null;
            case "txn": await client.Ask("txn", id, ("actions", asked["actions"])); return null;
            case "update": await At(asked).Update(old => (old as double? ?? 0) + asked.Number("by")); return null;
            case "say": await At(asked).Say(asked.Text("text")); return null;
            case "sayTo": await At(asked).Say(asked.Text("text"), user); return null;
            case "propose": await At(asked).Ask("say", ("data", asked["data"]), ("to", new string[0])); return null;
            case "close": await Close(); return null;
            case "view": return client.Rooms.ContainsKey(id) ? View(At(asked)) : (object)"none";
            case "iterate": iterations[name] = At(asked).Changes(); return null;
            case "next": return await Until(() => Next(iterations[name]));
            case "lobby": Follow(asked.Object("query")); return null;
            case "list": return await Until(List);
            case "unlist": lobby.Close(); return null;
            case "state": return (client.State.ToString().ToLowerInvariant() + " " + client.Error?.Code).Trim();
            case "ended": return ((At(asked).Error?.Code ?? "no") + " " + At(asked).Error?.Reason).Trim();
        }
        throw new Exception("there is no such command");
    }

    void Connect(Json options) {
        var tokens = new Queue<string>(options.List("tokens").Cast<string>());
        Func<Task<string>> token = () => Task.FromResult(tokens.Count > 1 ? tokens.Dequeue() : tokens.Peek());
        client = new Client(new Options {
            Addresses = options.List("addresses").Cast<string>().ToArray(),
            User = options.Text("user"), Token = tokens.Count > 0 ? token : null, Wait = (int)options.Number("wait"),
            Base = (int)options.Number("base"), Cap = (int)options.Number("cap"),
            Idle = (int)options.Number("idle"), Silence = (int)options.Number("silence"),
        });
    }

    void Follow(Json query) {
        var labels = query.Object("labels")?.ToDictionary(label => label.Key, label => (string)label.Value);
        var (prefix, contains, sort) = (query.Text("prefix"), query.Text("contains"), query.Text("sort"));
        lobby = client.Lobby(prefix, contains, labels, (int)query.Number("free"), sort ?? "id");
        told = false;
    }

    object List() {
        if (lobby.TryRead(out var list)) {
            var rooms = list.Select(room => room["room"] + " " + room["count"] + "/" + room["capacity"]);
            return Json.Of(("rooms", rooms), ("stale", lobby.Stale ? (object)true : null));
        }
        if (!lobby.Ended) return null;
        if (lobby.Error == null || told) return "end";
        told = true;
        throw lobby.Error;
    }

    static object Next(Changes changes) {
        if (!changes.TryRead(out var change)) return changes.Ended ? "end" : null;
        if (change.Text("type") != "snapshot") return change;
        return Json.Of(("type", "snapshot"), ("epoch", change["epoch"]), ("version", change["version"]));
    }

    static object View(Room room) => Shown(room.Snapshot(), room.Users, room.Timers.Keys).With("seat", room.Seat);

    static object Listed(Json list) {
        var dealt = list.Object("private") ?? Json.Of();
        var users = list.List("users").Cast<Json>().Select(user => user.With("private", dealt[user.Text("user")]));
        return Shown(list, users, (list.Object("timers") ?? Json.Of()).Keys);
    }

    static Json Shown(Json list, IEnumerable<Json> users, IEnumerable<string> timers) {
        var shown = users.Where(user => user["private"] != null);
        var dealt = shown.ToDictionary(user => user["user"], user => user["private"]);
        return Json.Of(("epoch", list["epoch"]), ("version", list["version"]), ("host", list["host"]),
            ("settings", list["settings"] ?? Json.Of()), ("users", users.Select(user => user.With("private", null))),
            ("private", dealt.Count > 0 ? dealt : null), ("timers", timers.Any() ? timers.OrderBy(name => name) : null))
            .With("data", list["data"]);
    }
}

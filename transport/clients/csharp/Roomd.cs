// Roomd.cs: the client of roomd for C# (netstandard2.1, C# 7), such as Unity and Godot .NET. It needs no other file.
//
// All happens in Pump, on the game's thread: the client's own code, callbacks, and what awaits its tasks. In the
// background a loop for each connection reads frames into a queue. From the top down: Json; Changes, one iteration over
// a room; Room, the copy of a room; Link, one WebSocket; Client, the user behind all connections; Lobby.
using System;
using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Collections.ObjectModel;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.WebSockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Roomd {
    /// <summary>A JSON object, which nobody can change. Values are null, bool, double, string, IReadOnlyList of values,
    /// and Json. A name that is missing has the value null.</summary>
    public sealed class Json : ReadOnlyDictionary<string, object> {
        internal static readonly Json Empty = Of();

        Json(IDictionary<string, object> fields) : base(fields) { }

        /// <summary>Of makes an object. A null is left out, unless the name is data or in, where it has a
        /// meaning.</summary>
        public static Json Of(params (string, object)[] fields) {
            var all = new Dictionary<string, object>();
            foreach (var field in fields)
                if (field.Item2 != null || field.Item1 == "data" || field.Item1 == "in") all[field.Item1] = field.Item2;
            return new Json(all);
        }

        public new object this[string name] => TryGetValue(name, out var value) ? value : null;
        public string Text(string name) => this[name] as string;
        public double Number(string name) => this[name] as double? ?? 0;
        public bool Is(string name) => this[name] as bool? ?? false;
        public Json Object(string name) => this[name] as Json;
        public IReadOnlyList<object> List(string name) => this[name] as IReadOnlyList<object> ?? Array.Empty<object>();

        /// <summary>With returns a copy with another value; null removes it.</summary>
        public Json With(string name, object value) {
            var fields = new Dictionary<string, object>(Dictionary);
            fields.Remove(name);
            if (value != null) fields[name] = value;
            return new Json(fields);
        }

        public override string ToString() => Write(this);

        /// <summary>Write returns a value as JSON. Dictionaries, lists and numbers may be of any type.</summary>
        public static string Write(object value) => Write(new StringBuilder(), value, 0).ToString();

        static StringBuilder Write(StringBuilder to, object value, int depth) {
            if (depth > 200) throw RoomdException.Of("bad_request", "JSON: more than 200 levels, or a circle");
            if (value == null) return to.Append("null");
            if (value is bool yes) return to.Append(yes ? "true" : "false");
            if (value is string || value is char) return Quote(to, value.ToString());
            if (value is double || value is float) return to.Append(Digits(Convert.ToDouble(value)));
            if (value is IFormattable number && (value is decimal || value.GetType().IsPrimitive))
                return to.Append(number.ToString(null, CultureInfo.InvariantCulture));
            var comma = "";
            if (value is IDictionary map) {
                to.Append('{');
                foreach (DictionaryEntry field in map) {
                    Quote(to.Append(comma), (string)field.Key);
                    Write(to.Append(':'), field.Value, depth + 1);
                    comma = ",";
                }
                return to.Append('}');
            }
            if (!(value is IEnumerable list)) throw RoomdException.Of("bad_request", "JSON has no " + value.GetType());
            to.Append('[');
            foreach (var part in list) {
                Write(to.Append(comma), part, depth + 1);
                comma = ",";
            }
            return to.Append(']');
        }

        static string Digits(double number) {
            if (double.IsNaN(number) || double.IsInfinity(number))
                throw RoomdException.Of("bad_request", "JSON has no " + number);
            var text = number.ToString("R", CultureInfo.InvariantCulture);
            var exact = double.Parse(text, CultureInfo.InvariantCulture) == number; // older runtimes have a fault
            return exact ? text : number.ToString("G17", CultureInfo.InvariantCulture);
        }

        static StringBuilder Quote(StringBuilder to, string text) {
            to.Append('"');
            foreach (var c in text) {
                if (c < ' ' || char.IsSurrogate(c)) to.Append("\\u").Append(((int)c).ToString("x4"));
                else to.Append(c == '"' || c == '\\' ? "\\" : "").Append(c);
            }
            return to.Append('"');
        }

        /// <summary>Parse reads a JSON value. It throws a FormatException.</summary>
        public static object Parse(string text) => new Parser(text).Whole();

        // Parser has a stack of its own: another player may send thousands of levels.
        sealed class Parser {
            readonly string text;
            readonly Stack<object> open = new Stack<object>(); // Dictionary or List
            readonly Stack<string> names = new Stack<string>(); // of the open values of dictionaries
            int at;

            internal Parser(string text) { this.text = text; }

            internal object Whole() {
                for (;;) {
                    object value;
                    if (Take('{')) {
                        open.Push(new Dictionary<string, object>());
                        if (!Take('}')) {
                            Name();
                            continue;
                        }
                        value = Closed();
                    } else if (Take('[')) {
                        open.Push(new List<object>());
                        if (!Take(']')) continue;
                        value = Closed();
                    } else value = Take('"') ? String() : Word();
                    while (open.Count > 0 && !AndMore(value)) value = Closed();
                    if (open.Count == 0) return Take('\0') || at < text.Length ? throw Wrong() : value;
                }
            }

            // AndMore adds a value to what is open, and reports whether that has another one.
            bool AndMore(object value) {
                var list = open.Peek() as List<object>;
                if (list != null) list.Add(value);
                else ((Dictionary<string, object>)open.Peek())[names.Pop()] = value;
                if (!Take(',')) return Take(list != null ? ']' : '}') ? false : throw Wrong();
                if (list == null) Name();
                return true;
            }

            object Closed() => open.Peek() is List<object>
                ? (object)((List<object>)open.Pop()).AsReadOnly() : new Json((Dictionary<string, object>)open.Pop());

            void Name() {
                if (!Take('"')) throw Wrong();
                names.Push(String());
                if (!Take(':')) throw Wrong();
            }

            bool Take(char c) {
                while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0) at++;
                if (at == text.Length || text[at] != c) return false;
                at++;
                return true;
            }

            object Word() {
                var start = at;
                while (at < text.Length && (char.IsLetterOrDigit(text[at]) || "+-.".IndexOf(text[at]) >= 0)) at++;
                var word = text.Substring(start, at - start);
                if (word == "null") return null;
                if (word == "true" || word == "false") return word == "true";
                var ok = double.TryParse(word, NumberStyles.Float, CultureInfo.InvariantCulture, out var number);
                return ok && !double.IsInfinity(number) && !double.IsNaN(number) ? number : throw Wrong();
            }

            string String() {
                for (var whole = new StringBuilder(); ; ) {
                    var end = text.IndexOfAny(new[] { '"', '\\' }, at);
                    if (end < 0 || text[end] == '\\' && end + 1 == text.Length) throw Wrong();
                    whole.Append(text, at, end - at);
                    at = end + 1;
                    if (text[end] == '"') return whole.ToString();
                    var known = "\"\\/bfnrt".IndexOf(text[at++]);
                    if (known >= 0) whole.Append("\"\\/\b\f\n\r\t"[known]);
                    else if (text[at - 1] == 'u' && at + 4 <= text.Length && ushort.TryParse(text.Substring(at, 4),
                        NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out var code)) {
                        whole.Append((char)code);
                        at += 4;
                    } else throw Wrong();
                }
            }

            FormatException Wrong() => new FormatException("no JSON from character " + at + " on");
        }
    }

    /// <summary>RoomdException says by its Code why something failed: one of the server's codes, or unknown, timeout,
    /// left, unwatched, lost, client_closed, replaced or disconnected.</summary>
    public sealed class RoomdException : Exception {
        public string Code { get; private set; }
        /// <summary>Retry says whether the same request may succeed soon.</summary>
        public bool Retry { get; private set; }
        /// <summary>Details has what the server added: data, epoch, version, reason, text, to.</summary>
        public Json Details { get; private set; }
        public string Reason => Details.Text("reason");

        RoomdException(string message) : base(message) { }

        internal static RoomdException Of(string code, string message, bool retry = false, Json details = null) =>
            new RoomdException(code + ": " + message) { Code = code, Retry = retry, Details = details ?? Json.Empty };

        // In returns the error of a reply, or of an answer by HTTP; null if there is none.
        internal static RoomdException In(Json reply) {
            var error = reply.Object("error") ?? reply;
            if (error.Text("code") == null) return null;
            return Of(error.Text("code"), error.Text("message") ?? error.Text("detail"), error.Is("retry"), reply);
        }
    }

    /// <summary>Changes is one iteration over the changes of a room: first a snapshot, then each change once and in
    /// order. Another snapshot replaces changes that were missed.</summary>
    public sealed class Changes {
        internal const int MostLag = 1024; // changes that were not read
        readonly Room room;
        readonly Queue<Json> queue;
        bool lagging; // a snapshot is due before the queue

        internal Changes(Room room, IEnumerable<Json> first) {
            this.room = room;
            queue = new Queue<Json>(first);
        }

        /// <summary>Ended says that all was read, and nothing comes any more: Room.Error says why.</summary>
        public bool Ended => room.Error != null && !lagging && queue.Count == 0;

        public bool TryRead(out Json change) {
            change = lagging ? room.Snapshot() : queue.Count > 0 ? queue.Dequeue() : null;
            lagging = false;
            return change != null;
        }

        internal void Add(Json change) {
            // The snapshot is taken when the program reads it, and covers all changes, except the loss of a seat.
            var lost = change.Text("type") == "lost";
            if (lagging && !lost && queue.Count == 0) return;
            if (queue.Count >= MostLag && !lost) {
                var kept = queue.Where(waiting => waiting.Text("type") == "lost").ToList();
                queue.Clear();
                kept.ForEach(queue.Enqueue);
                lagging = true;
            } else queue.Enqueue(change);
        }
    }

    /// <summary>Room is the copy of one room, which follows the server.</summary>
    public sealed class Room {
        readonly Client client;
        readonly List<Changes> readers = new List<Changes>();
        readonly List<(Json, TaskCompletionSource<Json>)> waiting = new List<(Json, TaskCompletionSource<Json>)>();
        List<Json> unread; // messages for the first reader, of a room that was entered with history
        RoomdException lost; // why the latest membership was lost
        internal bool Moved; // a move here was announced, and no snapshot has come since
        internal bool Stale; // events are missing, and a list has been asked for
        internal bool Restoring; // after a reconnect the room is not joined or watched again yet

        public string Id { get; }
        public string Epoch { get; private set; } = "";
        public double Version { get; private set; }
        /// <summary>Users are the members by their seats: user, seat, and maybe away, ready, data, private.</summary>
        public IReadOnlyList<Json> Users { get; private set; } = Array.Empty<Json>();
        public object Data { get; private set; }
        public Json Settings { get; private set; } = Json.Empty;
        /// <summary>Timers says when each fires, by Client.Now.</summary>
        public IReadOnlyDictionary<string, double> Timers { get; private set; } = new Dictionary<string, double>();
        public string Host { get; private set; }
        public int? Seat { get; private set; }
        public bool Member { get; private set; }
        public bool Watching { get; internal set; }
        /// <summary>Error says why the room has ended; null as long as it goes on.</summary>
        public RoomdException Error { get; private set; }
        internal bool Awaited => Moved && Member && Seat == null;

        internal Room(Client client, string id) {
            this.client = client;
            Id = id;
        }

        /// <summary>Changes begins an iteration, which knows nothing of others.</summary>
        public Changes Changes() {
            var first = Error != null ? new Json[0] : new[] { Snapshot() }.Concat(unread ?? new List<Json>());
            var changes = new Changes(this, first);
            unread = null;
            readers.Add(changes);
            return changes;
        }

        public Task Ready(bool value) => Ask("ready", ("value", value));

        /// <summary>Set replaces the room's data, or with the scope "member" or "private" that of the member. If the
        /// data has changed since the version expect, the code is conflict.</summary>
        public Task Set(object data, string scope = null, double? expect = null) =>
            Ask("set", ("data", data), ("scope", scope), ("expect", expect), ("epoch", expect == null ? null : Epoch));

        /// <summary>Update changes the room's data so that nobody's change is lost: if somebody else was faster, it
        /// calls change again, with the data of then. If change throws, nothing is written.</summary>
        public async Task Update(Func<object, object> change) {
            for (var now = Json.Of(("data", Data), ("epoch", Epoch), ("version", Version)); now != null;) {
                try {
                    var data = change(now["data"]);
                    await Ask("set", ("data", data), ("expect", now["version"]), ("epoch", now["epoch"]));
                    return;
                } catch (RoomdException error) when (error.Code == "conflict") {
                    now = error.Details;
                }
            }
        }

        /// <summary>Say sends a message to all, or to some.</summary>
        public Task Say(string text, params string[] to) =>
            Ask("say", ("text", text), ("to", to.Length == 0 ? null : to));

        /// <summary>Timer sets a timer of the room, which fires after so many ms; null cancels it.</summary>
        public Task Timer(string name, double? ms, object then = null) =>
            Ask("timer", ("name", name), ("in", ms), ("then", then));

        /// <summary>Leave frees the seat. If the server had ended the membership before, the code is lost.</summary>
        public Task Leave() => !Member ? Task.CompletedTask
            : client.Request(Json.Of(("action", "leave"), ("room", Id)), Left);

        public Task Unwatch() => !Watching ? Task.CompletedTask
            : client.Request(Json.Of(("action", "unwatch"), ("room", Id)), reply => {
                client.Find(Client.Good(reply).Text("room"))?.Quit("unwatched");
                return reply;
            });

        /// <summary>Ask sends any request about the room (see Json.Of), and returns the reply once the copy has its
        /// version.</summary>
        public async Task<Json> Ask(string action, params (string, object)[] fields) {
            if (Error != null) throw Error;
            var reply = await client.Ask(action, Id, fields);
            if (Has(reply)) return reply;
            var reached = new TaskCompletionSource<Json>();
            waiting.Add((reply, reached));
            return await reached.Task;
        }

        bool Has(Json reply) => Error != null || reply.Text("epoch") == Epoch && reply.Number("version") <= Version;

        Json Left(Json reply) {
            var error = RoomdException.In(reply);
            if (error != null && error.Code != "not_member" && error.Code != "unknown") throw error;
            if (error?.Reason != null) client.Lose(reply);
            if (error != null && lost != null) throw lost;
            client.Find(Id)?.Quit("left"); // this room, or a newer one if this was lost before
            return error?.Code == "unknown" ? throw error : reply;
        }

        /// <summary>Snapshot returns the room as it is.</summary>
        public Json Snapshot() => Json.Of(("type", "snapshot"), ("epoch", Epoch), ("version", Version),
            ("users", Users), ("data", Data), ("settings", Settings), ("host", Host), ("seat", (double?)Seat));

        // Enter makes the client a member. After a move, the seat comes with the snapshot.
        internal void Enter(int? seat) {
            Member = true;
            Seat = seat;
            lost = null;
        }

        // Keep keeps messages for the first reader, until there is one.
        internal void Keep() => unread = readers.Count == 0 ? unread ?? new List<Json>() : unread;

        // Replace replaces the copy by a list. It tells that if the copy changed, or if always is true.
        internal void Replace(Json list, bool always) {
            var news = always || Stale || list.Text("epoch") != Epoch || list.Number("version") != Version;
            Stale = false;
            Epoch = list.Text("epoch") ?? "";
            Version = list.Number("version");
            if (news) {
                var shown = list.Object("private") ?? Json.Empty;
                Users = Client.Users(list).Select(user => user.With("private", shown[user.Text("user")])).ToList();
                Settings = list.Object("settings") ?? Json.Empty;
                Host = list.Text("host");
                Data = list["data"];
                var timers = list.Object("timers") ?? Json.Empty;
                Timers = timers.ToDictionary(timer => timer.Key, timer => Client.Now + timers.Number(timer.Key));
            }
            FindSeat(Client.Users(list));
            var said = list.List("said").OfType<Json>().Select(message =>
                message.With("type", "message").With("epoch", message["epoch"] ?? Epoch));
            Tell((news ? new[] { Snapshot() } : new Json[0]).Concat(said));
        }

        void FindSeat(IEnumerable<Json> users) {
            var own = users.FirstOrDefault(user => user.Text("user") == client.User);
            if (Member && own != null) Seat = (int)own.Number("seat");
        }

        // Apply applies an event. It returns false if events before it are missing.
        internal bool Apply(Json happened) {
            if (Stale) return true; // the list that comes has this, too
            var begins = Version == 0 && happened.Number("from") == 0;
            Stale = happened.Number("from") != Version || happened.Text("epoch") != Epoch && !begins;
            if (Stale) return false;
            Epoch = happened.Text("epoch");
            Version = happened.Number("version");
            var changes = happened.List("changes").Cast<Json>().ToList();
            var users = Users.ToList();
            foreach (var change in changes) {
                var at = users.FindIndex(user => user.Text("user") == change.Text("user"));
                if (at >= 0) Alter(users, at, change);
                if (change.Text("type") == "join") Seated(users, change);
                OfRoom(change);
            }
            Users = users;
            if (changes.Any(change => change.Text("type") == "seat")) FindSeat(users);
            Tell(changes.Select(change => change.With("epoch", Epoch).With("version", change["version"] ?? Version)));
            return true;
        }

        static void Seated(List<Json> users, Json user) {
            var behind = users.FindIndex(other => other.Number("seat") > user.Number("seat"));
            users.Insert(behind < 0 ? users.Count : behind,
                Json.Of(("user", user["user"]), ("seat", user["seat"]), ("away", user["away"])));
        }

        static void Alter(List<Json> users, int at, Json change) {
            var user = users[at];
            switch (change.Text("type")) {
                case "leave": users.RemoveAt(at); return;
                case "away": user = user.With("away", true); break;
                case "back": user = user.With("away", null); break;
                case "private": user = user.With("private", change["data"]); break;
                case "member": // what is left out stays as it is
                    if (change.ContainsKey("data")) user = user.With("data", change["data"]);
                    if (change.Is("ready")) user = user.With("ready", true);
                    else if (change.ContainsKey("ready")) user = user.With("ready", null);
                    break;
                case "seat": user = user.With("seat", change["seat"]); break;
            }
            users[at] = user;
            if (change.Text("type") == "seat") users.Sort((a, b) => a.Number("seat").CompareTo(b.Number("seat")));
        }

        void OfRoom(Json change) {
            switch (change.Text("type")) {
                case "settings": Settings = change.Object("settings") ?? Json.Empty; break;
                case "host": Host = change.Text("user"); break;
                case "data": Data = change["data"]; break;
                case "countdown": case "timer":
                    var timers = Timers.ToDictionary(timer => timer.Key, timer => timer.Value);
                    timers.Remove(change.Text("name"));
                    if (change["in"] is double left) timers[change.Text("name")] = Client.Now + left;
                    Timers = timers;
                    break;
            }
        }

        // Lose ends the membership, because the server has ended that or the watch. It tells that once.
        internal void Lose(Json why, string reason) {
            var told = Json.Of(("type", "lost"), ("epoch", Epoch), ("version", Version), ("reason", reason),
                ("text", why["text"]), ("to", why["to"]));
            Member = false;
            Seat = null;
            if (lost == null) Tell(new[] { told });
            lost = RoomdException.Of("lost", "the seat in room " + Id + ": " + reason, false, told);
            if (!Watching) End(lost);
        }

        // Quit ends the membership, or with the code unwatched the watch, and the room if neither is left.
        internal void Quit(string code) {
            if (code == "unwatched") Watching = false;
            else {
                Member = false;
                Seat = null;
            }
            if (!Member && !Watching) End(RoomdException.Of(code, "room " + Id));
        }

        internal void End(RoomdException error) {
            if (Error != null) return;
            Error = error;
            client.Forget(Id);
            Member = Watching = false;
            Seat = null;
            Tell(new Json[0]);
        }

        void Tell(IEnumerable<Json> changes) {
            foreach (var change in changes) {
                foreach (var reader in readers) reader.Add(change);
                if (unread?.Count == Roomd.Changes.MostLag) unread.RemoveAt(0);
                if (change.Text("type") == "message") unread?.Add(change);
                client.Tell(() => client.OnChange(this, change));
            }
            foreach (var one in waiting)
                if (Has(one.Item1)) client.Tell(() => one.Item2.TrySetResult(one.Item1));
            waiting.RemoveAll(one => Has(one.Item1));
        }
    }

    public sealed class Options {
        public string[] Addresses;
        public string User;
        /// <summary>Token returns a token, for each connection and before the last one expires. Pump calls
        /// it.</summary>
        public Func<Task<string>> Token;
        /// <summary>In ms: the bounds of the first and the longest pause before the client connects again; the silence
        /// after which it pings, and how long it then waits; how long a request waits for a connection.</summary>
        public int Base = 250, Cap = 5000, Idle = 6000, Silence = 5000, Wait = 10000;
    }

    public enum State { Connecting, Connected, Degraded, Reconnecting, Lost }

    sealed class Request {
        internal string Action, Room;
        internal string Text; // the frame, since the program may change its data
        internal Action<Json> Done; // gets the reply; null if the connection ends before that, and the request is Own
        internal bool Own, Sent; // Own: the client's, not the program's
        internal int Tries;
        internal long Place;
        internal double Deadline;
    }

    // Link is one WebSocket, with the requests that wait for replies, and the heartbeat. If the server refuses a
    // request because too many came at once, Link sends it again, and fewer at once from then on.
    sealed class Link {
        const int MostUnanswered = 64, RatePause = 100, RateTries = 30, GoodbyeWait = 2000;
        const int MostQueued = 1 << 20, LongestFrame = 1 << 26; // bytes
        readonly Client client;
        readonly Dictionary<double, Request> pending = new Dictionary<double, Request>();
        readonly List<Request> queue = new List<Request>();
        Task sending = Task.CompletedTask, reading;
        double window = MostUnanswered, rest;
        long lastID, place, pinged;
        long heard, queued; // when the last frame came; bytes that Pump has not seen: changed in the background, too
        volatile bool over;
        internal readonly ClientWebSocket Socket = new ClientWebSocket();
        // Ended gets the close code.
        internal readonly TaskCompletionSource<int> Ended =
            new TaskCompletionSource<int>(TaskCreationOptions.RunContinuationsAsynchronously);

        internal Link(Client client) { this.client = client; }

        internal void Listen() {
            heard = (long)Client.Now;
            reading = Task.Run(Read);
        }

        async Task Read() {
            var code = 1006;
            try {
                var part = new ArraySegment<byte>(new byte[1 << 14]);
                for (var whole = new MemoryStream(); whole.Length < LongestFrame;) {
                    var got = await Socket.ReceiveAsync(part, CancellationToken.None).ConfigureAwait(false);
                    if (got.MessageType == WebSocketMessageType.Close) {
                        code = (int)(got.CloseStatus ?? WebSocketCloseStatus.Empty);
                        break;
                    }
                    Interlocked.Exchange(ref heard, (long)Client.Now);
                    whole.Write(part.Array, 0, got.Count);
                    if (!got.EndOfMessage) continue;
                    var size = whole.Length;
                    var frame = Client.Parse(Encoding.UTF8.GetString(whole.GetBuffer(), 0, (int)size));
                    whole.SetLength(0);
                    Interlocked.Add(ref queued, size);
                    client.Post(() => {
                        Interlocked.Add(ref queued, -size);
                        Receive(frame);
                    });
                    // If nobody calls Pump, the server has to wait: it merges events then.
                    while (Interlocked.Read(ref queued) > MostQueued && !over)
                        await Task.Delay(20).ConfigureAwait(false);
                }
            } catch (Exception error) {
                if (IsRestart(error)) code = 1012;
            }
            client.Post(() => Drop(code));
        }

        // IsRestart reports whether the node has closed with 1012: of a node's codes the only one that runtimes before
        // .NET 9 do not know. They say that the frame is faulty, and not which code it had.
        static bool IsRestart(Exception error) {
            while (error.InnerException != null) error = error.InnerException;
            return (error as WebSocketException)?.WebSocketErrorCode == WebSocketError.Faulted;
        }

        internal void Send(Request request) {
            request.Place = ++place;
            queue.Add(request);
            Advance();
        }

        void Advance() {
            while (queue.Count > 0 && !over && Client.Now >= rest && pending.Count < Math.Floor(window)) {
                var next = queue[0];
                queue.RemoveAt(0);
                Transmit(next);
            }
        }

        void Transmit(Request request) {
            pending[++lastID] = request;
            request.Sent = true;
            sending = Write(sending, "{\"id\":" + lastID + "," + request.Text.Substring(1));
        }

        async Task Write(Task before, string text) {
            await before.ConfigureAwait(false);
            var bytes = new ArraySegment<byte>(Encoding.UTF8.GetBytes(text));
            const WebSocketMessageType kind = WebSocketMessageType.Text;
            await Socket.SendAsync(bytes, kind, true, CancellationToken.None).ConfigureAwait(false);
        }

        // Ask sends a request of the client's own. apply gets the reply at once, unless it is an error.
        internal Task<Json> Ask(Json frame, Action<Json> apply = null) {
            var answer = new TaskCompletionSource<Json>(TaskCreationOptions.RunContinuationsAsynchronously);
            Action<Json> done = reply => {
                if (reply?.ContainsKey("error") == false) apply?.Invoke(reply);
                answer.TrySetResult(reply);
            };
            if (over) done(null);
            else Send(new Request { Text = Json.Write(frame), Done = done, Own = true });
            return answer.Task;
        }

        void Receive(Json frame) {
            if (over) return;
            if (frame.ContainsKey("event")) client.Event(frame);
            else if (pending.TryGetValue(frame.Number("id"), out var request)) {
                pending.Remove(frame.Number("id"));
                if (frame.Object("error")?.Text("code") == "rate_limited" && ++request.Tries < RateTries) {
                    request.Sent = false;
                    queue.Insert(queue.Count(other => other.Place < request.Place), request);
                    window = 1;
                    if (rest < Client.Now) rest = Client.Now + RatePause;
                } else {
                    window = Math.Min(MostUnanswered, window + 1 / window);
                    request.Done(frame);
                }
                Advance();
            }
        }

        // Beat does what is due. Pump calls it behind the frames that have come.
        internal void Beat() {
            if (over || reading == null) return;
            long now = (long)Client.Now, last = Interlocked.Read(ref heard);
            if (last >= pinged) pinged = 0;
            if (pinged > 0 && now - pinged > client.Options.Silence) Drop(1006);
            else if (pinged == 0 && now - last > client.Options.Idle) {
                pinged = now;
                Transmit(new Request { Text = "{\"action\":\"ping\"}", Done = reply => { }, Own = true });
            }
            Advance();
        }

        // TakeBack returns the program's requests without a reply, in the order of asking.
        internal List<Request> TakeBack() {
            var all = pending.Values.Concat(queue).OrderBy(request => request.Place).ToList();
            pending.Clear();
            queue.Clear();
            foreach (var own in all.Where(request => request.Own)) own.Done(null);
            return all.Where(request => !request.Own).ToList();
        }

        // Drop ends the connection at once, as a broken network would.
        internal void Drop(int code) {
            over = true;
            Socket.Abort();
            Ended.TrySetResult(code);
        }

        // Leave says goodbye, so that the server frees the seats.
        internal async Task Leave() {
            over = true;
            await Task.WhenAny(Goodbye(), Task.Delay(GoodbyeWait)).ConfigureAwait(false);
            Socket.Abort();
        }

        async Task Goodbye() {
            await sending.ConfigureAwait(false);
            const WebSocketCloseStatus normal = WebSocketCloseStatus.NormalClosure;
            await Socket.CloseOutputAsync(normal, "", CancellationToken.None).ConfigureAwait(false);
            await reading.ConfigureAwait(false);
        }
    }

    /// <summary>Client is one user who stays connected. Call it only on the thread that calls Pump.</summary>
    public sealed class Client : IDisposable {
        const int LongestRequest = 16 * 1024, Steady = 10000, RenewalFloor = 500;
        const string OrNot = "; it was done or it was not";
        static readonly string[] repeatable = { "join", "match", "leave", "ready", "users", "watch", "unwatch" };
        static readonly int[] faults = { 1002, 1003, 1007, 1008, 1009, 4009 };
        static readonly HttpClient http = new HttpClient(new HttpClientHandler { AllowAutoRedirect = false });
        static readonly Stopwatch clock = Stopwatch.StartNew();
        static readonly Random random = new Random();

        readonly Turn turn;
        readonly ConcurrentQueue<Action> inbox = new ConcurrentQueue<Action>(); // also from the background
        readonly Queue<Action> told = new Queue<Action>(); // what the program has to be told
        readonly TaskCompletionSource<Client> connected = new TaskCompletionSource<Client>();
        readonly CancellationTokenSource life = new CancellationTokenSource();
        readonly Dictionary<string, Room> rooms = new Dictionary<string, Room>();
        readonly Uri[] addresses;
        List<Request> waiting = new List<Request>(); // not sent
        Link link; // the current one, also while it is being made
        int next; // address
        double expires; // of the token, in seconds since 1970
        bool pumping, degraded, refused; // refused: the last token was not accepted

        public Options Options { get; }
        public string User { get; private set; }
        public State State { get; private set; }
        /// <summary>Error says why the client is lost.</summary>
        public RoomdException Error { get; private set; }
        public IReadOnlyDictionary<string, Room> Rooms => rooms;
        /// <summary>Trouble is why the latest attempt to connect failed. More attempts follow, unless State is
        /// Lost.</summary>
        public Exception Trouble { get; private set; }
        /// <summary>Connected is done when the client is connected for the first time.</summary>
        public Task Connected => connected.Task;
        /// <summary>Now is in ms, by a clock that nobody sets.</summary>
        public static double Now => clock.Elapsed.TotalMilliseconds;
        public event Action StateChanged;
        /// <summary>Changed is called with each change of each room.</summary>
        public event Action<Room, Json> Changed;
        internal CancellationToken Life => life.Token;
        bool IsConnected => State == State.Connected || State == State.Degraded;

        public Client(Options options) {
            Options = options;
            User = options.User;
            addresses = options.Addresses.Select(address => Resolve(address, options.User)).ToArray();
            next = random.Next(addresses.Length);
            turn = new Turn(this);
            Post(Run);
        }

        // Turn lets the client's own methods go on in Pump.
        sealed class Turn : SynchronizationContext {
            readonly Client client;
            internal Turn(Client client) { this.client = client; }
            public override void Post(SendOrPostCallback call, object state) => client.Post(() => call(state));
            public override SynchronizationContext CreateCopy() => this;
        }

        /// <summary>Pump does what is due: call it in each frame of the game. An exception of a callback comes out of
        /// it, and the next Pump goes on.</summary>
        public void Pump() {
            if (pumping) return; // called by what Pump calls
            pumping = true;
            try {
                for (var most = inbox.Count + 1000; told.Count > 0 || most-- > 0 && !inbox.IsEmpty;) {
                    if (told.Count > 0) told.Dequeue()();
                    else if (inbox.TryDequeue(out var act)) Inside(act);
                }
                Inside(Tick);
            } finally {
                pumping = false;
            }
        }

        void Inside(Action act) {
            var outer = SynchronizationContext.Current;
            SynchronizationContext.SetSynchronizationContext(turn);
            try {
                act();
            } finally {
                SynchronizationContext.SetSynchronizationContext(outer);
            }
        }

        // Tick does what the clock demands.
        void Tick() {
            link?.Beat();
            foreach (var late in waiting.Where(request => request.Deadline < Now).ToList()) {
                waiting.Remove(late);
                var none = "no connection in " + Options.Wait + " ms";
                late.Done(late.Sent ? Problem("unknown", none + OrNot) : Problem("timeout", none, true));
            }
        }

        internal void Post(Action act) => inbox.Enqueue(act);
        internal void Tell(Action act) => told.Enqueue(act);
        internal void OnChange(Room room, Json change) => Changed?.Invoke(room, change);
        internal Room Find(string id) => id != null && rooms.TryGetValue(id, out var room) ? room : null;
        internal void Forget(string id) => rooms.Remove(id);
        internal Uri NextAddress() => addresses[next++ % addresses.Length];
        internal static IEnumerable<Json> Users(Json list) => list.List("users").Cast<Json>();

        static Json Problem(string code, string message, bool retry = false) =>
            Json.Of(("error", Json.Of(("code", code), ("message", message), ("retry", retry))));

        // Good returns a reply that is no error, and throws one that is.
        internal static Json Good(Json reply) => reply.ContainsKey("error") ? throw RoomdException.In(reply) : reply;

        // Parse reads a frame. It throws if its lists would break the copies of the rooms.
        internal static Json Parse(string text) {
            var frame = (Json)Json.Parse(text);
            foreach (var list in new[] { frame["users"], frame["changes"] })
                if (list != null && !((IReadOnlyList<object>)list).All(part => part is Json))
                    throw new FormatException();
            return frame;
        }

        static Uri Resolve(string address, string user) {
            var url = new UriBuilder(address);
            url.Scheme = url.Scheme.Replace("http", "ws");
            if (url.Scheme != "ws" && url.Scheme != "wss")
                throw RoomdException.Of("bad_request", "the address " + address + " must begin with ws:// or wss://");
            if (url.Path == "/") url.Path = "/ws";
            if (user != null) url.Query = url.Query.TrimStart('?') + "&user=" + Uri.EscapeDataString(user);
            return url.Uri;
        }

        async void Run() {
            for (var n = 0; Error == null; n++) {
                var made = await Try(NextAddress());
                if (made != null) {
                    var began = Now;
                    Up();
                    Tell(() => connected.TrySetResult(this));
                    var code = await made.Ended.Task;
                    if (Now - began >= Steady) n = 0;
                    if (link == made) Down(code);
                    Judge(code);
                }
                if (Error == null) await Pause(n);
            }
        }

        // Try makes a connection. If it fails, it returns null, and ends the client if no other attempt can help.
        async Task<Link> Try(Uri address) {
            var made = new Link(this);
            try {
                var token = await Token();
                if (Error != null) return null;
                link = made;
                made.Socket.Options.AddSubProtocol("roomd.v1");
                if (token != null) made.Socket.Options.SetRequestHeader("Authorization", "Bearer " + token);
                var opening = Task.Run(() => made.Socket.ConnectAsync(address, CancellationToken.None));
                await Task.WhenAny(opening, Task.Delay(Options.Wait, Life));
                if (opening.IsFaulted) throw await Probe(address, token) ?? (Exception)opening.Exception;
                if (!opening.IsCompleted || Error != null) throw new TimeoutException();
                if (made.Socket.SubProtocol != "roomd.v1")
                    throw RoomdException.Of("bad_request", address.Host + " does not speak roomd.v1");
                var claims = Claims(token);
                Granted(claims.Text("sub"), claims.Number("exp"));
                degraded = false;
                made.Listen();
                return made;
            } catch (Exception error) {
                made.Drop(1006);
                if (link == null && State == State.Connecting) // there will be no token the next time either
                    error = error as RoomdException ?? RoomdException.Of("client_closed", "no token: " + error.Message);
                link = null;
                Trouble = error;
                if (error is RoomdException refusal && Final(refusal)) Fail(refusal);
                return null;
            }
        }

        // Probe asks by HTTP why a handshake failed, because a WebSocket does not say.
        async Task<RoomdException> Probe(Uri address, string token) {
            try {
                using (var answer = await Get(address, token, Life)) {
                    var why = await Refusal(answer);
                    return why?.Message.Contains("websocket: ") == true ? null : why; // only the handshake is missing
                }
            } catch (Exception) {
                return null;
            }
        }

        // Get asks by HTTP. The answer comes within Options.Wait, its content may last longer.
        internal async Task<HttpResponseMessage> Get(Uri address, string token, CancellationToken cut) {
            var url = new UriBuilder(address) { Scheme = address.Scheme.Replace("ws", "http") };
            var request = new HttpRequestMessage(HttpMethod.Get, url.Uri);
            if (token != null) request.Headers.TryAddWithoutValidation("Authorization", "Bearer " + token);
            using (var late = CancellationTokenSource.CreateLinkedTokenSource(cut)) {
                late.CancelAfter(Options.Wait);
                const HttpCompletionOption head = HttpCompletionOption.ResponseHeadersRead;
                return await Task.Run(() => http.SendAsync(request, head, late.Token));
            }
        }

        // Refusal returns what an answer says; null if that is not the server's.
        internal static async Task<RoomdException> Refusal(HttpResponseMessage answer) {
            try {
                return RoomdException.In((Json)Json.Parse(await answer.Content.ReadAsStringAsync()));
            } catch (Exception) {
                return null;
            }
        }

        internal async Task<string> Token() {
            if (Options.Token == null) return null;
            var token = Options.Token();
            await Task.WhenAny(token, Task.Delay(Options.Wait, Life));
            return token.IsCompleted ? await token : throw new TimeoutException("no token came in time");
        }

        // Claims reads a token, without verifying it.
        static Json Claims(string token) {
            try {
                var part = token.Split('.')[1].Replace('-', '+').Replace('_', '/');
                var bytes = Convert.FromBase64String(part.PadRight((part.Length + 3) / 4 * 4, '='));
                return (Json)Json.Parse(Encoding.UTF8.GetString(bytes));
            } catch (Exception) {
                return Json.Empty;
            }
        }

        void Granted(string user, double until) {
            User = user ?? User;
            expires = until;
        }

        // Pause waits before attempt n: a random time below a limit that doubles, so that clients spread out.
        internal Task Pause(int n) => Wait(random.NextDouble() * Math.Min(Options.Cap, Options.Base * Math.Pow(2, n)));

        // Wait waits for so many ms, or for the end of the client.
        Task Wait(double ms) => Task.WhenAny(Task.Delay((int)Math.Min(ms, int.MaxValue), Life));

        void Up() {
            refused = false;
            if (Options.Token != null && expires > 0) Renew(link);
            foreach (var room in rooms.Values.ToList()) {
                room.Restoring = true;
                room.Stale = room.Moved = false;
                Restore(room, link);
            }
            Become(degraded ? State.Degraded : State.Connected);
            Flush();
        }

        void Down(int code) {
            var requests = link.TakeBack();
            link = null;
            foreach (var room in rooms.Values) room.Restoring = true;
            if (code == 1012) requests.ForEach(request => request.Sent = false); // the node has not begun them
            foreach (var request in requests) request.Deadline = Now + Options.Wait;
            var again = requests.ToLookup(request => !request.Sent || repeatable.Contains(request.Action));
            foreach (var request in again[false])
                request.Done(Problem("unknown", "the connection broke before the reply came" + OrNot));
            waiting.InsertRange(0, again[true]);
        }

        // Judge decides by a close code whether to connect again.
        void Judge(int code) {
            if (Error != null) return;
            var text = "the connection was closed with " + code;
            var unauthorized = RoomdException.Of("unauthorized", text);
            if (code == 4001) Fail(RoomdException.Of("replaced", text));
            else if (faults.Contains(code)) Fail(RoomdException.Of("disconnected", text));
            else if (code == 4003 && Final(unauthorized)) Fail(unauthorized);
            else Become(State.Reconnecting);
        }

        // Final reports whether a refusal ends the client. After one refused token it asks for another one.
        bool Final(RoomdException error) {
            var again = error.Code == "unauthorized" ? !refused && Options.Token != null : error.Retry;
            refused |= error.Code == "unauthorized";
            return !again;
        }

        void Become(State state) {
            if (State == state) return;
            State = state;
            Tell(() => StateChanged?.Invoke());
        }

        void Fail(RoomdException error) {
            if (Error != null) return;
            Error = error;
            var last = link;
            if (last != null) Down(1006);
            last?.Drop(1006);
            foreach (var request in waiting) request.Done(Problem(error.Code, "the client has ended"));
            waiting.Clear();
            foreach (var room in rooms.Values.ToList()) room.End(error);
            life.Cancel();
            Become(State.Lost);
            Tell(() => connected.TrySetException(error));
        }

        /// <summary>Close leaves the rooms, and ends what waits. Its task needs no Pump: it is done when the server has
        /// answered, or after 2 s.</summary>
        public Task Close() {
            var last = IsConnected ? link : null;
            if (last != null) Down(1006);
            var left = last?.Leave() ?? Task.CompletedTask;
            Inside(() => Fail(RoomdException.Of("client_closed", "the program closed the client")));
            Pump();
            return left;
        }

        public void Dispose() => Close();

        // Renew shows a newer token before the last one expires, by the server's clock.
        async void Renew(Link at) {
            while (link == at && expires > 0) {
                var time = await at.Ask(Json.Of(("action", "ping")));
                if (time == null) return;
                await Wait(Math.Max((expires * 1000 - time.Number("time")) * 0.8, RenewalFloor));
                try {
                    var token = link == at ? await Token() : null;
                    var reply = await at.Ask(Json.Of(("action", "auth"), ("token", token)));
                    if (reply != null && link == at) Granted(Good(reply).Text("user"), reply.Number("expires"));
                } catch (Exception) { } // the older token remains valid: the server says when it has expired
            }
        }

        // Restore joins and watches a room again. The room's other requests wait meanwhile.
        async void Restore(Room room, Link at) {
            var version = (object)room.Version;
            if (room.Member) {
                var since = room.Seat == null ? null : version; // null: moved here, and no list has come yet
                var lost = await Insist(room, at, Again("join", room, since).With("seat", room.Seat), reply => {
                    room.Enter((int)reply.Number("seat"));
                    room.Replace(reply, true);
                });
                if (lost != null) room.Lose(lost.Details, lost.Reason ?? lost.Code);
            }
            if (room.Watching && link == at) {
                var since = room.Settings.Number("history") > 0 ? version : null; // what was said meanwhile
                var watch = Again("watch", room, since);
                var refusal = await Insist(room, at, watch, reply => room.Replace(reply, !room.Member));
                if (refusal != null) Unwatched(room, refusal.Details, refusal.Code);
            }
            if (link != at) return;
            room.Restoring = false;
            Flush();
        }

        static Json Again(string action, Room room, object since) => Json.Of(("action", action), ("room", room.Id),
            ("expect", since), ("epoch", since == null ? null : room.Epoch));

        // Insist repeats a request while that may help. It returns the server's last refusal, or null. Until the server
        // notices that the earlier connection is broken, it may refuse the user because of that session.
        async Task<RoomdException> Insist(Room room, Link at, Json frame, Action<Json> apply) {
            var began = Now;
            for (var n = 0; link == at && room.Error == null; n++) {
                var reply = await at.Ask(frame, apply);
                var error = reply == null || link != at ? null : RoomdException.In(reply);
                var own = error?.Code == "duplicate_user" && Now - began < 2 * Options.Idle;
                if (error == null || !error.Retry && error.Code != "unknown" && !own) return error;
                await Pause(n);
            }
            return null;
        }

        // Request sends a request once it can. apply gets the reply before the next frame is read.
        internal Task<T> Request<T>(Json frame, Func<Json, T> apply) {
            var task = new TaskCompletionSource<T>();
            try {
                if (Error != null) throw Error;
                var text = Json.Write(frame);
                var size = Encoding.UTF8.GetByteCount(text) + 24; // with the id
                if (size > LongestRequest) throw RoomdException.Of("too_large", "a frame of " + size + " bytes");
                Action<Json> done = reply => {
                    try {
                        var result = apply(reply);
                        Tell(() => task.TrySetResult(result));
                    } catch (RoomdException error) {
                        Tell(() => task.TrySetException(error));
                    }
                };
                waiting.Add(new Request {
                    Action = frame.Text("action"), Room = frame.Text("room") ?? frame.Text("party"), Text = text, Done = done,
                    Deadline = Now + Options.Wait,
                });
                Flush();
            } catch (RoomdException error) {
                task.TrySetException(error);
            }
            return task.Task;
        }

        void Flush() {
            if (!IsConnected || link == null) return;
            foreach (var request in waiting.ToList()) {
                var room = Find(request.Room);
                if (room?.Restoring == true || room?.Awaited == true && request.Action != "join") continue;
                waiting.Remove(request);
                link.Send(request);
            }
        }

        // Enter returns the room, and makes it if there is none.
        Room Enter(string id) => Find(id) ?? (rooms[id] = new Room(this, id));

        // Entered applies the reply to a join, a match or a watch.
        Room Entered(Json reply, bool watch, bool history) {
            var room = Enter(Good(reply).Text("room"));
            if (history) room.Keep();
            if (watch) room.Watching = true;
            else {
                var own = Users(reply).FirstOrDefault(user => user.Number("seat") == reply.Number("seat"));
                User = own?.Text("user") ?? User;
                room.Enter((int)reply.Number("seat"));
            }
            room.Replace(reply, false);
            return room;
        }

        /// <summary>Join sits down, on any seat or a certain one. history asks for so many earlier messages.</summary>
        public Task<Room> Join(string room, int? seat = null, int? history = null) =>
            Request(Json.Of(("action", "join"), ("room", room), ("seat", seat), ("history", history)),
                reply => Entered(reply, false, history != null));

        /// <summary>Match joins a room that has the labels, or begins one with the settings. In a party, which is a
        /// room, the user agrees to that; once all these users have, all are moved.</summary>
        public Task<Room> Match(object labels, object settings = null, string party = null, string[] users = null) =>
            Request(Json.Of(("action", "match"), ("labels", labels), ("settings", settings), ("party", party),
                ("users", users), ("key", party == null ? Guid.NewGuid().ToString() : null)),
                reply => Entered(reply, false, false));

        public Task<Room> Watch(string room, int? history = null) =>
            Request(Json.Of(("action", "watch"), ("room", room), ("history", history)),
                reply => Entered(reply, true, history != null));

        /// <summary>Ask sends any request of the protocol, and returns the reply: Ask("users", "42").</summary>
        public Task<Json> Ask(string action, string room, params (string, object)[] fields) =>
            Request(Json.Of(fields).With("action", action).With("room", room), Good);

        /// <summary>Lobby follows the list of rooms. sort is id, members or age.</summary>
        public Lobby Lobby(string prefix = null, string contains = null, IDictionary<string, string> labels = null,
            int free = 0, string sort = "id") {
            var query = "watch=" + Term("prefix", prefix) + Term("contains", contains);
            if (free > 0) query += Term("free", free.ToString(CultureInfo.InvariantCulture));
            foreach (var label in labels ?? new Dictionary<string, string>())
                query += Term("label", label.Key + ":" + label.Value);
            var lobby = new Lobby(this, query, sort);
            Post(lobby.Feed);
            return lobby;
        }

        static string Term(string name, string value) =>
            string.IsNullOrEmpty(value) ? "" : "&" + name + "=" + Uri.EscapeDataString(value);

        // Lose applies the end of a membership. A moved user is a member of the other room from then on.
        internal void Lose(Json happened) {
            Find(happened.Text("room"))?.Lose(happened, happened.Text("reason"));
            if (happened.Text("to") == null) return;
            var target = Enter(happened.Text("to"));
            target.Moved = true;
            if (!target.Member) target.Enter(null);
        }

        static void Unwatched(Room room, Json why, string reason) {
            if (room == null) return;
            room.Watching = false;
            if (!room.Member) room.Lose(why, reason);
        }

        internal void Event(Json happened) {
            var room = Find(happened.Text("room"));
            switch (happened.Text("event")) {
                case "node":
                    degraded = happened.Is("degraded");
                    if (IsConnected) Become(degraded ? State.Degraded : State.Connected);
                    break;
                case "snapshot": Snapshot(happened, room); break;
                case "lost": Lose(happened); break;
                case "unwatched": Unwatched(room, happened, happened.Text("reason")); break;
                case "changes": if (room?.Apply(happened) == false) Resync(room, link); break;
            }
        }

        // Snapshot replaces a room. If it lists the client, which has no such room, or was moved there, the client is a
        // member: the reply to a leave may have crossed the move.
        void Snapshot(Json happened, Room room) {
            var own = Users(happened).FirstOrDefault(user => user.Text("user") == User);
            if (own != null && (room == null || room.Moved)) {
                room = Enter(happened.Text("room"));
                room.Enter((int)own.Number("seat"));
            }
            if (room == null) return;
            room.Moved = false;
            room.Replace(happened, true);
            Flush();
        }

        // Resync asks for the list of a room whose events are missing.
        async void Resync(Room room, Link at) =>
            await Insist(room, at, Json.Of(("action", "users"), ("room", room.Id)), reply => {
                if (room.Stale) room.Replace(reply, true);
            });
    }

    /// <summary>Lobby follows the list of rooms. A slow reader gets the newest list.</summary>
    public sealed class Lobby {
        const int Silence = 30000; // ms; the server writes at least every 15 s
        readonly Client client;
        readonly string query, sort;
        readonly CancellationTokenSource over;
        readonly List<Json> parts = new List<Json>(); // of a list that is not whole yet
        Dictionary<string, Json> rooms; // null before the first list
        RoomdException error;
        bool news, refused; // refused: the last token was not accepted

        /// <summary>Stale says that no server answers.</summary>
        public bool Stale { get; private set; }
        /// <summary>Ended says that all was read, and nothing comes any more.</summary>
        public bool Ended => over.IsCancellationRequested && !news;
        /// <summary>Error says why it has ended; null if the program wanted that.</summary>
        public RoomdException Error => error ?? client.Error;

        internal Lobby(Client client, string query, string sort) {
            this.client = client;
            this.query = query;
            this.sort = sort;
            over = CancellationTokenSource.CreateLinkedTokenSource(client.Life);
        }

        /// <summary>TryRead returns the whole list if there is a newer one.</summary>
        public bool TryRead(out IReadOnlyList<Json> list) {
            var all = news ? rooms.Values.OrderBy(room => room.Text("room"), StringComparer.Ordinal) : null;
            if (sort == "members") all = all?.OrderByDescending(room => room.Number("count"));
            if (sort == "age") all = all?.OrderByDescending(room => room["since"] ?? double.MaxValue);
            list = all?.ToList();
            news = false;
            return list != null;
        }

        public void Close() {
            news = false;
            over.Cancel();
        }

        internal async void Feed() {
            for (var n = 0; !over.IsCancellationRequested; n++) {
                try {
                    if (await Listen(client.NextAddress())) n = 0;
                } catch (Exception failure) {
                    var why = failure as RoomdException;
                    var token = why?.Code == "unauthorized";
                    var again = token ? !refused && client.Options.Token != null : why?.Retry != false;
                    refused |= token;
                    if (again) Stale = news = rooms != null;
                    else {
                        error = why;
                        over.Cancel();
                    }
                }
                await Task.WhenAny(client.Pause(n), Task.Delay(-1, over.Token));
            }
        }

        // Listen follows the lobby on one server, and reports whether that went well for long. It throws if the server
        // refuses.
        async Task<bool> Listen(Uri address) {
            var began = Client.Now;
            var url = new UriBuilder(new Uri(address, "api/rooms")) { Query = query };
            using (var answer = await client.Get(url.Uri, await client.Token(), over.Token))
            using (var cut = CancellationTokenSource.CreateLinkedTokenSource(over.Token))
            using (cut.Token.Register(answer.Dispose)) {
                var status = (int)answer.StatusCode; // a proxy may answer, perhaps while servers restart
                var later = rooms != null || status >= 500 || status == 429;
                if (status != 200) throw await Client.Refusal(answer)
                    ?? RoomdException.Of("bad_request", "HTTP " + status, later);
                refused = false;
                try {
                    await Events(new StreamReader(await answer.Content.ReadAsStreamAsync()), cut);
                } catch (Exception) { } // only this connection has ended
            }
            return Client.Now - began > 10000;
        }

        async Task Events(StreamReader lines, CancellationTokenSource cut) {
            string name = "", data = "", line = "";
            for (cut.CancelAfter(Silence); (line = await lines.ReadLineAsync()) != null; cut.CancelAfter(Silence)) {
                if (line.StartsWith("event:", StringComparison.Ordinal)) name = line.Substring(6).Trim();
                else if (line.StartsWith("data:", StringComparison.Ordinal)) data += line.Substring(5);
                else if (line == "") {
                    if (name == "rooms" || name == "changes") Hear((Json)Json.Parse(data), name == "rooms");
                    name = data = "";
                }
            }
        }

        void Hear(Json event_, bool whole) {
            if (over.IsCancellationRequested) return;
            parts.Add(event_.With("whole", whole));
            if (event_.Is("more")) return;
            foreach (var part in parts) {
                if (part.Is("whole")) rooms = new Dictionary<string, Json>();
                foreach (var room in part.List("rooms").OfType<Json>()) rooms[room.Text("room")] = room;
                foreach (var id in part.List("gone").OfType<string>()) rooms.Remove(id);
            }
            parts.Clear();
            Stale = false;
            news = true;
        }
    }
}

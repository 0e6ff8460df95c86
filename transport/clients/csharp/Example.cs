// Example ADDRESS USER: two players fill a pot at table 42.
using System;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Roomd;

static class Example {
    static void Main(string[] args) {
        Console.OutputEncoding = new UTF8Encoding(false);
        using (var client = new Client(new Options { Addresses = new[] { args[0] }, User = args[1] })) {
            var game = Play(client);
            while (!game.IsCompleted) {
                client.Pump(); // Unity and Godot do this in each frame
                Thread.Sleep(16);
            }
            game.GetAwaiter().GetResult(); // throws what Play has thrown
        }
    }

    static async Task Play(Client client) {
        var room = await client.Join("42");
        Console.WriteLine(client.User + " has seat " + room.Seat);
        var full = new TaskCompletionSource<double>();
        client.Changed += (where, change) => {
            Console.WriteLine(client.User + " sees " + change.Text("type") + " of " + change.Text("user"));
            if (room.Data is double pot && pot >= 10) full.TrySetResult(pot);
        };
        await room.Update(pot => (pot as double? ?? 0) + 5); // nobody's 5 is lost if both are as fast
        Console.WriteLine(client.User + " sees a pot of " + await full.Task);
        await room.Leave();
    }
}

// What README.md uses of Unity and Godot.
namespace UnityEngine {
    public class MonoBehaviour { }

    public static class Debug {
        public static void Log(object text) { }
    }
}

namespace Godot {
    public sealed class Json { }

    public class Node {
        public virtual void _Ready() { }
        public virtual void _Process(double delta) { }
        public virtual void _ExitTree() { }
    }

    public static class GD {
        public static void Print(params object[] all) { }
    }
}

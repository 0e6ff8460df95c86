<?php
// The card-game article's lock, by a program that knows nothing of roomd: LockRoom:<id>, SET NX EX 3 with a value of its own, a
// spin of 5 ms, and a release that compares. What the lock guards is Shared:<id>. Trace:<id> has what happened, in order.
// It adds the process to uniqid(), which is the time: two processes would draw the same one.
[, $port, $id, $who] = $argv;
$redis = new Redis();
$redis->connect('127.0.0.1', (int)$port);
$release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
while (!$redis->exists("Stop:$id")) {
    $value = $id . uniqid() . '-' . getmypid();
    $began = hrtime(true);
    while (!$redis->set("LockRoom:$id", $value, ['nx', 'ex' => 3])) {
        usleep(5000);
    }
    $waited = hrtime(true) - $began;
    $count = (int)$redis->get("Shared:$id");
    $redis->rPush("Trace:$id", "in $who $count " . (int)$redis->hGet("Room:$id:Meta", 'version') . " $waited");
    usleep(1000);
    $redis->set("Shared:$id", ++$count);
    $redis->rPush("Trace:$id", "out $who $count " . (int)$redis->hGet("Room:$id:Meta", 'version') . " 0");
    $redis->eval($release, ["LockRoom:$id", $value], 1);
}

-- The rules of the lock, as functions. lockmgr.NewScript puts those that a script uses in
-- front of it, and leaves out the others: Redis makes every function anew each time a
-- script runs, which takes as long as a small command. So each rule begins with its fast
-- path, and lock_queue has the work that is only needed if somebody waits.
--
-- A lock is three keys, which share a hash tag on Redis Cluster, and a channel:
--   key         string, PX    the holder's token; after a release, the next waiter's
--                             token, for a short claim
--   key:Queue   sorted set    the tokens that wait, by order of arrival; behind all of them
--                             the buried tokens, see lock_bury
--   key:Fence   string, PX    the last number drawn, marked if there is no queue; see
--                             lock_number
--   key:Wake:<process>   pub/sub   "<fence> <claim in ms> <token>" tells a waiter of that
--                             process that it has the lock. A token ends in a UUID, whose
--                             first 8 digits name its process
--
-- at     where the lock's keys begin in KEYS: 1, unless a script has several locks
-- token  the caller's, unlike any other     ttl  of a hold, in ms
-- ARGV[1] is the command that reaches the channel: PUBLISH, or SPUBLISH on Cluster.
-- ARGV[2] is the claim, in ms.
--
-- At maxmemory Redis refuses commands that may need memory, unless the script has written
-- already. Even then a holder must be able to release the lock, and the next waiter must get
-- it: the first write of these rules is a command that Redis never refuses.

-- Is the lock held under this token? It compares the whole token.
local function lock_holds(at, token)
  return redis.call('GET', KEYS[at]) == token
end

-- Draws a number larger than any drawn for this lock before: the fence of a hold that
-- begins, or the position of the last token in the queue. It is the server's time in
-- microseconds, 16 digits, as a string. So it also grows if Redis has lost the last number,
-- or knows only an older one. If the clock has stepped back, the number is one more than
-- the last one, which Redis keeps for ten minutes: a step back does harm only if the last
-- number is lost or has expired.
--
-- mark is '.' if there is no queue, and nothing if there may be one. It stands behind the
-- number that Redis keeps, so that a script that reads the number need not look for a queue,
-- see lock_waits. To Lua the number is the same with it. Programs that do not know the mark
-- keep their numbers without it. Also returns what Redis kept before.
local function lock_number(at, mark)
  mark = mark or ''
  local t = redis.call('TIME')
  local micros = t[2]
  while #micros < 6 do
    micros = '0' .. micros
  end
  local number = t[1] .. micros
  local last = redis.call('SET', KEYS[at + 2], number .. mark, 'PX', '600000', 'GET')
  if last and last >= number then
    number = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[at + 2], number .. mark, 'PX', '600000')
  end
  return number, last
end

-- Is there a queue? last is what Redis keeps as the last number.
local function lock_waits(at, last)
  return (not last or string.byte(last, -1) ~= 46) and redis.call('EXISTS', KEYS[at + 1]) == 1
end

-- Returns the token at the head, or false.
local function lock_head(queue)
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  return first[1] and first[2] + 0 < 1e18 and first[1]
end

-- Offers the lock to head, the longest waiting token, if head is given. Then puts token, if
-- given, at the end of the queue, unless it waits already, and returns its position. A buried
-- token does not wait.
--
-- The offer lasts for a claim: a waiter that has died delays the others by no more. A
-- wake-up tells the waiter its fence and the claim, so it can go to work without asking. If
-- the wake-up is lost, the waiter learns of the offer by asking. A wake-up with a smaller
-- fence than a waiter's position was for a position that the waiter has lost.
--
-- A queue that nobody asks about expires after a minute, or with its last buried token.
local function lock_queue(at, head, token)
  local key, queue, number = KEYS[at], KEYS[at + 1], nil
  if head then
    redis.call('ZREM', queue, head)
    number = lock_number(at)
    redis.call('SET', key, head, 'PX', ARGV[2])
    redis.pcall(ARGV[1], key .. ':Wake:' .. string.sub(head, -36, -29), number .. ' ' .. ARGV[2] .. ' ' .. head)
  end
  if not token or token == head then
    return
  end
  local position = redis.call('ZSCORE', queue, token)
  if position and position + 0 >= 1e18 then
    return
  elseif not position then
    position = number or lock_number(at)
    redis.call('ZADD', queue, position, token)
  end
  if redis.call('PTTL', queue) < 30000 then
    redis.call('PEXPIRE', queue, 60000)
  end
  return position
end

-- Is the lock free for this token to take, or its own already? Changes nothing.
local function lock_open(at, token)
  local holder, queue = redis.call('GET', KEYS[at]), KEYS[at + 1]
  return holder == token or not holder and (redis.call('EXISTS', queue) == 0 or
    not lock_head(queue) and not redis.call('ZSCORE', queue, token))
end

-- Does what lock_acquire does, without its fast path.
local function lock_stand(at, token, ttl, wait)
  local key, queue = KEYS[at], KEYS[at + 1]
  local holder = redis.call('GET', key)
  if holder == token then
    redis.call('PEXPIRE', key, ttl)
    return true
  end
  local head = not holder and lock_head(queue)
  if not holder and (not head or head == token) then
    if head then
      redis.call('ZREM', queue, token)
    elseif redis.call('ZSCORE', queue, token) then -- buried, since nobody waits
      return false
    end
    redis.call('SET', key, token, 'PX', ttl) -- raises the reason if Redis refuses it
    return true
  end
  return false, lock_queue(at, head, wait and token)
end

-- Acquires a lock that is free, if nobody has waited longer and the token is not buried.
-- Otherwise it returns false; if wait is true, it also puts the token into the queue, and
-- returns its position, too.
--
-- It also succeeds if the token has the lock already. The TTL then starts anew, because the
-- caller measures its deadline from the request that was answered.
local function lock_acquire(at, token, ttl, wait)
  if redis.call('EXISTS', KEYS[at + 1]) == 0 and not redis.pcall('SET', KEYS[at], token, 'NX', 'PX', ttl, 'GET') then
    return true
  end
  return lock_stand(at, token, ttl, wait)
end

-- Acquires the lock as lock_acquire does, and returns the fence of the hold in place of true.
-- The number that it draws says whether there may be a queue, so it takes the lock first.
local function lock_acquire_fenced(at, token, ttl, wait)
  local fence, last
  if not redis.pcall('SET', KEYS[at], token, 'NX', 'PX', ttl, 'GET') then
    fence, last = lock_number(at, '.')
    if not lock_waits(at, last) then
      return fence
    end
    redis.call('DEL', KEYS[at]) -- others may have waited longer, or the token is buried
    fence = lock_number(at)
  end
  local held, position = lock_stand(at, token, ttl, wait)
  return held and (fence or lock_number(at)), position
end

-- Starts the TTL anew, for its holder only.
local function lock_extend(at, token, ttl)
  return lock_holds(at, token) and redis.call('PEXPIRE', KEYS[at], ttl) == 1
end

-- Releases the lock, for a script that has checked that the caller holds it, and offers it to the
-- longest waiting token, if any.
--
-- If the caller knows a live waiter, it names that waiter's token as next. With a ttl, next
-- has the lock at once, for the whole ttl, unless others have waited longer. If next does not
-- get the lock and others wait, next waits behind them. Returns whether next has the lock,
-- or else its position, if it waits. A buried next gets nothing. waits says whether there is
-- a queue, if the caller knows.
local function lock_release(at, next, ttl, waits)
  local key, queue = KEYS[at], KEYS[at + 1]
  if waits == nil then
    waits = redis.call('EXISTS', queue) == 1
  end
  if waits then
    local head = lock_head(queue)
    if head and not (ttl and head == next) then
      return false, lock_queue(at, head, next)
    elseif head then
      redis.call('ZREM', queue, next)
    elseif next and redis.call('ZSCORE', queue, next) then -- buried, since nobody waits
      ttl = nil
    end
  end
  if not ttl then
    redis.call('DEL', key)
    return false
  end
  if redis.pcall('SET', key, next, 'PX', ttl).err then
    redis.call('DEL', key)
    redis.call('SET', key, next, 'PX', ttl)
  end
  return true
end

-- Releases the lock as lock_release does, if the token holds it. Returns
--   fence       next has the lock
--   {position}  another has it, and next waits at that position
--   {}          another has it, or nobody, and next does not wait: there is none, or it is buried
--   0           the token did not hold it
local function lock_pass(at, token, next, ttl)
  local is = redis.call('MGET', KEYS[at], KEYS[at + 2])
  if is[1] ~= token then
    return 0
  end
  local waits = lock_waits(at, is[2])
  local held, position = lock_release(at, next, ttl, waits)
  if held then
    return (lock_number(at, not waits and '.' or nil))
  end
  return {position}
end

-- Takes a token out of the queue, and releases the lock if the token holds it. Returns
-- true if released.
local function lock_abandon(at, token)
  redis.call('ZREM', KEYS[at + 1], token)
  if not lock_holds(at, token) then
    return false
  end
  lock_release(at)
  return true
end

-- Buries a token: it leaves the queue, and from now on gets neither the lock nor a position.
-- A request with the token may still be under way, and nobody waits for that request any
-- more. If the token holds the lock, it keeps the lock: see lock_abandon.
--
-- The queue keeps the buried token for ten minutes, behind all that wait: its score is 1e18
-- more than the server's time in microseconds.
local function lock_bury(at, token)
  local queue = KEYS[at + 1]
  redis.call('ZREM', queue, token)
  local now = string.sub(lock_number(at), 1, 10) * 1e6
  redis.call('ZREMRANGEBYSCORE', queue, '1e18', string.format('%.0f', 1e18 + now - 6e8))
  redis.call('ZADD', queue, string.format('%.0f', 1e18 + now), token)
  redis.call('PEXPIRE', queue, 600000)
end

-- Buries a token, and lets heir have what the token had: the lock, or its position.
local function lock_inherit(at, heir, token)
  local key, queue = KEYS[at], KEYS[at + 1]
  local position = redis.call('ZSCORE', queue, token)
  lock_bury(at, token)
  if lock_holds(at, token) then
    redis.call('ZREM', queue, heir)
    redis.call('SET', key, heir, 'KEEPTTL')
  elseif position and position + 0 < 1e18 and not lock_holds(at, heir) then
    redis.call('ZADD', queue, 'LT', position, heir)
  end
end

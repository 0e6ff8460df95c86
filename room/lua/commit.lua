-- Gives the lock back after the room was written, to who has waited longest: somebody
-- waits, and it is not the next token, which nobody has seen before. (commit_write.lua
-- stands in front of this, and between them are lockmgr's functions.)
local lock = lock_at(1, ARGV[1], ARGV[2])
lock_offer(lock)
if heir ~= '' then
  lock_queue(lock, heir, tonumber(keep))
end
return {'done', false, unheard}

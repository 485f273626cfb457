-- What is safe while a cluster moves a slot key by key. No function of its own, writes nothing.
-- Then a key may be on the other node. A command with one key that is not here is refused where the slot leaves, but
-- served where it arrives, as if the key had never existed; a command with several keys is refused on both sides unless
-- all of them are here. A function is atomic. So it reads all keys that it will write with one command, before it writes
-- any: either that fails, and nothing has changed, or nothing after it can fail. Keys that it has deleted are not here
-- any more either, so it does not touch them again.
local reach = {}
H.reach = reach

-- Fails unless all keys are on this node. Give at least two.
function reach.prove(...) call('EXISTS', ...) end

-- Fails while the shard's slot moves, whichever keys are here: one of these two never is. For functions whose keys
-- mostly do not exist yet.
function reach.stand_still(shard) call('EXISTS', shard, H.keys.nowhere(shard)) end

-- The same as an answer, for what may be left undone.
function reach.is_moving(shard) return type(protected_call('EXISTS', shard, H.keys.nowhere(shard))) == 'table' end

//! What PyTorch writes. What safetensors writes by raw system calls is the business of what a dry run adds to the process:
//! `crates/cli/tests/it/dryrun.rs`.

use crate::world::World;

#[test]
#[ignore = "needs a PyTorch: HIGHWATER_TEST_TORCH=/path/to/python"]
fn checkpoints_are_saved_and_loaded() {
    let python =
        std::env::var_os("HIGHWATER_TEST_TORCH").expect("HIGHWATER_TEST_TORCH names an interpreter with torch");
    let world = World::new();
    let script = "
import os, torch
model = torch.nn.Linear(4, 4)
os.makedirs('checkpoints/1')
torch.save(model.state_dict(), 'checkpoints/1/model.pt')
model.load_state_dict(torch.load('checkpoints/1/model.pt'))
torch.save(model.state_dict(), 'a.txt', _use_new_zipfile_serialization=False)
print(len(torch.load('a.txt', mmap=False)), os.path.getsize('checkpoints/1/model.pt') > 0)
print(torch.load('checkpoints/1/model.pt', mmap=True)['bias'].shape)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(8.)), batch_size=2, num_workers=2)
print(sum(batch[0].sum().item() for batch in data))
";
    let said = world.run(world.command(python).args(["-c", script]));
    assert_eq!(said, "2 True\ntorch.Size([4])\n28.0\n");
}

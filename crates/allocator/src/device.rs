//! What the allocator asks of the driver.

/// A device: memory, addresses, and whether work on its streams is done.
///
/// All addresses and sizes are bytes.
pub trait Device {
    /// The memory of the device, whoever holds it.
    fn total_bytes(&self) -> u64;

    /// What nobody holds.
    fn free_bytes(&self) -> u64;

    /// `cudaMalloc`: memory with an address; `None` if there is not enough.
    fn malloc(&mut self, bytes: u64) -> Option<u64>;

    /// `cudaFree` of what [`Device::malloc`] gave.
    fn free(&mut self, address: u64, bytes: u64);

    /// `cuMemAddressReserve`: addresses without memory.
    fn reserve(&mut self, bytes: u64) -> Option<u64>;

    /// `cuMemAddressFree` of what [`Device::reserve`] gave.
    fn release(&mut self, address: u64, bytes: u64);

    /// `cuMemCreate` and `cuMemMap`: puts memory behind reserved addresses; false, and nothing done, if there is not
    /// enough.
    fn map(&mut self, address: u64, bytes: u64) -> bool;

    /// `cuMemUnmap` and `cuMemRelease` of mapped addresses.
    fn unmap(&mut self, address: u64, bytes: u64);

    /// `cudaEventQuery`: whether the work that `stream` has been given is done.
    fn is_done(&mut self, stream: u64) -> bool;
}

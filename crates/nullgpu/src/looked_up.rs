//! Names that programs look up at run time, in libraries that they load by themselves: no file lists these as undefined, so
//! the stubs have them always.

/// A soname, which names belong to it, and the names that are looked up.
pub type List = (&'static str, fn(&str) -> bool, &'static [&'static str]);

/// The libraries that are loaded at run time.
pub const LISTS: [List; 2] = [("libnvidia-ml.so.1", is_nvml, &NVML), ("libcuda.so.1", is_driver, &DRIVER)];

/// What is looked up in a library.
pub fn names(soname: &str) -> &'static [&'static str] {
    LISTS.iter().find(|(listed, ..)| *listed == soname).map_or(&[], |(_, _, names)| names)
}

fn is_nvml(name: &str) -> bool {
    name.starts_with("nvml")
}

/// The driver's names go on with a capital after `cu`, which those of no other library do, except for cuFile's.
fn is_driver(name: &str) -> bool {
    name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_uppercase()))
        && !name.starts_with("cuFile")
}

const NVML: [&str; 26] = [
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetP2PStatus",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlErrorString",
    "nvmlInit",
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
];

const DRIVER: [&str; 114] = [
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxFromGreenCtx",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetLimit",
    "cuCtxPopCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxSetLimit",
    "cuCtxSynchronize",
    "cuDevResourceGenerateDesc",
    "cuDevSmResourceSplitByCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDevResource",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuFuncSetCacheConfig",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGraphAddKernelNode_v2",
    "cuGreenCtxCreate",
    "cuGreenCtxDestroy",
    "cuGreenCtxStreamCreate",
    "cuInit",
    "cuKernelGetAttribute",
    "cuKernelGetFunction",
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLibraryGetKernel",
    "cuLibraryLoadData",
    "cuLibraryUnload",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLinkCreate_v2",
    "cuLinkDestroy",
    "cuLogsRegisterCallback",
    "cuLogsUnregisterCallback",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAddressRange",
    "cuMemGetAddressRange_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD32Async",
    "cuMemsetD32_v2",
    "cuMemsetD8Async",
    "cuMemsetD8_v2",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastCreate",
    "cuMulticastUnbind",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamGetCtx",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamWaitValue32",
    "cuStreamWaitValue32_v2",
    "cuStreamWriteValue32",
    "cuStreamWriteValue32_v2",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_belong_where_they_are_listed() {
        for (soname, belongs, names) in LISTS {
            assert!(names.is_sorted_by(|a, b| a < b), "{soname}");
            assert!(names.iter().all(|name| belongs(name)), "{soname}");
        }
        assert!(!is_driver("cudaMalloc") && !is_driver("cublasCreate") && !is_driver("cuFileRead"));
    }
}
